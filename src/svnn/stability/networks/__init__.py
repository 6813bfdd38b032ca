"""A trained network on two covariances: certified bounds, responses of its layers, measurements.

``_network_parts`` takes a network apart and ``_filter_banks`` bounds how far one layer moves; ``_certificate`` puts
the layers together again. ``_layer_responses`` looks at single layers, ``_network_draws`` and ``_curves`` (with
``_curve_points``) run the network on many covariances and measure.
"""
