"""`python -m deeppqr`: the command line."""

from .cli import main

raise SystemExit(main())
