"""The bounds of the paper as they are printed, with their constants as arguments.

They say how errors grow with the numbers of samples and features. They are not certificates: every docstring says
what is missing, and ``svnn.stability`` has a certified bound in its place. ``_sampling`` holds Thms. 1 and 5,
``_perturbation`` Prop. 2 and Thms. 2 to 4, ``_component_rates`` Lemma 1 and Prop. 1.
"""
