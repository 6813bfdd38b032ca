"""How far outputs move when the covariance does: exact errors, certified bounds, advice."""
