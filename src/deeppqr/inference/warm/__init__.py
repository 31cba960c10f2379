"""Refits of a default fit that start from it: many replicates at a time, on any device."""
