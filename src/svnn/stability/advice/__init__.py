"""Which sparsifier suits some data: ``advise`` compares them on samples that were held out.

``_advisor`` measures, ``_candidates`` holds what it decides between, ``_ranking`` puts these in the order of
recommendation, ``_noise`` compares the spectrum with that of pure noise, and ``_advice`` is the answer as an object
that prints itself.
"""
