"""Estimation where actions are amounts: densities, quadrature, laws smooth in the action.

`deeppqr.PQR.fit` uses it for panels whose `actions` are a Box or Mixed space.
"""
