"""Which covariance: ``advise`` compares covariances on samples that were held out.

With a target ``svnn.comparison`` measures the predictions. Without one ``_advisor`` measures the estimates,
``_candidates`` holds what it decides between, ``_ranking`` puts these in the order of recommendation, ``_noise``
compares the spectrum with that of pure noise, and ``_advice`` is the answer as an object that prints itself.
"""
