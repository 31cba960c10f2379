"""The run-time check of annotations, with an int accepted where a float is."""

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
