"""One filter, or a bank of filters, on two matrices: responses and how steep they are, bounds, expected errors.

``_responses`` and ``_constants`` describe a filter; ``_bounds`` bounds how far it moves; ``_sparsification`` says what
dropping entries at random does to a matrix, ``_expected`` (with ``_variance``) what it does to a filter, exactly, and
``_monte_carlo`` the same by drawing; ``_components`` holds the rival, principal components.
"""
