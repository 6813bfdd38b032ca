"""The data of the paper: generators of synthetic data, and loaders of the official files of real data."""
