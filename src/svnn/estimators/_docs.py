"""The parts of the documentation that estimators share."""

_HEADING = """
    Parameters
    ----------
"""

_NETWORK = """    covariance : str or estimator, default="hard"
        The covariance whose polynomials filter the data: "sample" (the dense VNN), "hard", "soft",
        "adaptive", "acv", "rcv", "ledoit_wolf", "oas", "graphical_lasso", any estimator with ``fit`` and
        ``covariance_`` from svnn or elsewhere, or "precomputed" with ``shift=``. It is fitted on the
        training rows only, after standardisation.
    shift : matrix of shape (N, N), optional
        The symmetric matrix for ``covariance="precomputed"``, on the scale of the standardised features.
        It need not be positive semidefinite: sparsified covariances often are not.
    use : {"covariance", "precision"}, default="covariance"
        Shift by the estimator's ``precision_`` instead, which is what graphical lasso makes sparse.
    hidden : sequence of int, default=(32,)
        Values per node after each layer; its length is the number of layers.
    order : int, default=2
        K, the number of shifts of every filter.
    activation : {"leaky_relu", "relu", "elu", "gelu", "silu", "tanh", "identity"}, default="leaky_relu"
    dropout : float in [0, 1), default=0.0
    batch_norm : bool, default=True
    readout : {"weighted", "mean", "flatten"}, default="weighted"
        "weighted" learns weights of the nodes; "mean" is the paper's, cannot tell nodes apart and is
        usually less accurate, but transfers to another N; "flatten" feeds every node to the head.
    heads : int, default=@heads@
        Number of weight vectors of the weighted readout.
    mlp : sequence of int, default=@mlp@
        Hidden sizes of the head; empty for a linear head.
    node_dropout : float in [0, 1), default=@node_dropout@
        Share of the nodes left out of a sample's readout at random during training.
"""

_TRAINING = """    standardize : bool, default=True
        z-score the features@target@ with training statistics.
    lr : float, default=0.01
        Learning rate of Adam.
    weight_decay : float, default=1e-5
    max_epochs : int, default=1000
    patience : int, default=100
        Stop after so many epochs without a better validation loss; the best weights are kept.
    tol : float, default=0.0
        How much the validation loss has to fall to count as better. On separable classes it falls a
        little in every epoch; 1e-4 stops earlier there.
    batch_size : int, "auto" or None, default="auto"
        Rows of a gradient step. "auto" takes 32, or fewer (a power of two) where an epoch would have
        less than about four steps; None takes all rows at once.
    averaging : float in [0, 1), default=0.99
        Validate and predict with an exponential moving average of the weights, of this decay; it
        removes the noise of small batches. 0 uses the weights as they are.
    validation_fraction : float in [0, 1), default=0.1
        Rows held out for early stopping where ``fit`` gets no ``validation_data``; 0 watches the
        training loss instead.
"""

_RESAMPLING = """    resample : {"fixed", "epoch", "forward", "shift"}, default="fixed"
        For a stochastic covariance (ACV, RCV): train on one realisation, or draw a fresh one every
        epoch, every forward pass, or every shift of every layer. Prediction always uses
        ``covariance_``.
    cache_bytes : int, default=2**30
        Memory for the first layer's shifted signals, which are computed once and used in every epoch
        while they fit; 0 computes them anew in every step.
"""

_RUN = """    device : str, default="auto"
        "auto" is the GPU where there is one.
    random_state : int, Generator, RandomState or None
        Seed of the split, the weights, the batches and the realisations.
    verbose : int, default=0
        1 shows a progress bar when run in a terminal.
    callbacks : sequence of callables
        Each is called after every epoch with a dict of ``epoch``, ``train_loss``, ``valid_loss`` and
        ``best_loss``; returning True stops the training.
"""

LOSS = """    loss : {"huber", "squared", "absolute"}, default="huber"
        What is minimised, on the scale of the standardised targets (their own scale with
        ``standardize=False``). "huber" is squared up to 0.5 and absolute beyond: outliers weigh less,
        small errors are treated as the squared loss treats them.
"""

CLASS_WEIGHT = """    class_weight : dict, "balanced" or None, default=None
        Weights of the classes in the loss.
"""

_ATTRIBUTES = """
    Attributes
    ----------
"""

_SHIFT_ATTRIBUTES = """    covariance_ : csr_array or ndarray of shape (N, N)
        Of the standardised features.
    operator_ : CovarianceOperator
        The shift: the covariance divided by its spectral norm, ``operator_.scale``.
    module_ : svnn.nn.SVNN
"""

_FITTED = """    history_ : dict of lists
        ``train_loss`` and ``valid_loss`` of every epoch.
    n_iter_ : int
        Number of epochs trained.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (N,), where X has named columns
"""


CLASSES = """    classes_ : ndarray of the labels
"""


def document(summary: str, examples: str, extra: str = "", attributes: str = "", **defaults: str) -> str:
    """Return the docstring of an S-VNN estimator from its own parts and the shared ones."""
    parameters = _HEADING + _NETWORK + _TRAINING + _RESAMPLING + _RUN + extra
    for name, text in defaults.items():
        parameters = parameters.replace(f"@{name}@", text)
    return summary + parameters + _ATTRIBUTES + _SHIFT_ATTRIBUTES + _FITTED + attributes + examples


def document_baseline(
    summary: str, own: str, after: str, *, attributes: str, target: str = "", extra: str = "", trained: bool = True
) -> str:
    """Return the docstring of a baseline: its own parameters come first, then those of the training loop."""
    training = (_TRAINING + _RUN).replace("@target@", target) if trained else ""
    fitted = _FITTED if trained else _FITTED[_FITTED.index("    n_features_in_") :]
    return summary + _HEADING + own + extra + training + _ATTRIBUTES + attributes + fitted + after
