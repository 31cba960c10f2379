"""Panels whose rows stay on disk, and sums over all rows wherever they are."""
