"""Decisions in: DataFrames, files and arrays, checked once on the way.

Users meet one name of this room, `deeppqr.Panel`.
"""
