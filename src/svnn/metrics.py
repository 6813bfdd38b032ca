"""Scores of an estimated covariance."""
