"""Spaces of actions that are amounts: a box of them, or a box with atoms such as nothing.

Users meet `deeppqr.Box` and `deeppqr.Mixed`; finitely many actions need no space.
"""
