"""What the rows of ``make rivals`` say, in Markdown: scores, ranks, and where the covariance helps."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

import numpy as np
from _measure import number
from _ranks import critical_difference, friedman, mean, paired, ranks
from _rival_fits import TABLES
from _rival_models import MODELS, REGRESSION

#: A row of the file: names of columns and text.
Row = dict[str, str]
#: The columns of the report: a name, and the places of its models in MODELS. The last ones share "best other".
COLUMNS = {
    "svnn": 0,
    "without edges": 1,
    "ridge / logistic": 2,
    "SVM": 3,
    "GP / LDA": 4,
    "boosting": 5,
    "PLS / k-NN": 6,
    "forest": 7,
    "MLP": 8,
}
OTHERS = ("PLS / k-NN", "forest", "MLP")
OUR_COLUMNS = ("svnn", "without edges")


@dataclass
class Table:
    """The scores of one table by column of the report, on the splits that all its models have."""

    name: str
    samples: int
    features: int
    kind: str
    scores: dict[str, list[float]]

    @property
    def means(self) -> dict[str, float]:
        return {column: mean(values) for column, values in self.scores.items()}

    @property
    def splits(self) -> int:
        return len(next(iter(self.scores.values())))

    @property
    def best(self) -> list[str]:
        """The columns with the lowest mean."""
        lowest = min(self.means.values())
        return [column for column, value in self.means.items() if value == lowest]

    @property
    def near(self) -> list[str]:
        """The columns within one standard error of the best, which is one of them."""
        found = []
        for column, values in self.scores.items():
            difference, error = paired(values, self.scores[self.best[0]])
            if column in self.best or difference <= error:
                found.append(column)
        return found

    def shown(self, column: str) -> str:
        """The mean of a column: bold where it is the best, with an asterisk where it is near."""
        if column not in self.scores:
            return "–"
        text = f"{self.means[column]:.{2 if min(self.means.values()) < 10 else 1}f}"
        if column in self.best:
            return f"**{text}**"
        return f"{text}*" if column in self.near else text

    def best_other(self) -> str:
        """The best of the models without a column of their own, with its name."""
        others = [column for column in OTHERS if column in self.scores]
        if not others:
            return "–"
        one = min(others, key=lambda column: self.means[column])
        return f"{self.shown(one)} ({MODELS[self.kind][COLUMNS[one]]})"


def summarise(rows: list[Row]) -> list[Table]:
    """Gather the rows of the file by table, in the order of TABLES."""
    column_of = {(kind, models[i]): name for kind, models in MODELS.items() for name, i in COLUMNS.items()}
    names = dict.fromkeys(row["data"] for row in rows if row["score"])
    tables = []
    for name in sorted(names, key=lambda name: (list(TABLES).index(name) if name in TABLES else len(TABLES), name)):
        mine = [row for row in rows if row["data"] == name and row["score"]]
        found: dict[str, dict[int, float]] = {column: {} for column in COLUMNS}
        for row in mine:
            found[column_of[row["kind"], row["model"]]][int(row["seed"])] = float(row["score"])
        found = {column: values for column, values in found.items() if values}
        seeds = sorted(set.intersection(*(set(values) for values in found.values())))
        if seeds:
            scores = {column: [values[seed] for seed in seeds] for column, values in found.items()}
            first = mine[0]
            tables.append(Table(name, int(first["samples"]), int(first["features"]), first["kind"], scores))
    return tables


def columns_of(tables: list[Table]) -> list[str]:
    return [column for column in COLUMNS if any(column in table.scores for table in tables)]


def ranked(tables: list[Table]) -> tuple[list[str], np.ndarray]:
    """Return the columns and their ranks (tables × columns), on the tables where every model could run."""
    columns = columns_of(tables)
    means = [[table.means[column] for column in columns] for table in tables if set(columns) == set(table.scores)]
    return columns, ranks(means) if means else np.empty((0, len(columns)))


def score_table(tables: list[Table]) -> str:
    """Return the mean scores in Markdown."""
    columns = [column for column in columns_of(tables) if column not in OTHERS]
    lines = [f"| data (samples × features) | score | {' | '.join(columns)} | best other |"]
    lines.append("|---" * (3 + len(columns)) + "|")
    for table in tables:
        unit = "MAE" if table.kind == REGRESSION else "error (%)"
        cells = " | ".join([*(table.shown(column) for column in columns), table.best_other()])
        lines.append(f"| {table.name} ({table.samples} × {table.features}) | {unit} | {cells} |")
    return "\n".join(lines)


def rank_table(tables: list[Table], rows: list[Row]) -> str:
    """Return mean ranks, how often a model is the best or near it, and the median of its fits, in Markdown."""
    columns, found = ranked(tables)
    places = dict(zip(columns, found.mean(0) if len(found) else [float("nan")] * len(columns), strict=True))
    lines = ["| model | mean rank | best | within one SE | median fit (s) |", "|---|---|---|---|---|"]
    for column in sorted(columns, key=lambda column: places[column]):
        models = {kind: names[COLUMNS[column]] for kind, names in MODELS.items()}
        seconds = [float(r["fit_seconds"]) for r in rows if r["fit_seconds"] and r["model"] == models[r["kind"]]]
        best, near = sum(column in table.best for table in tables), sum(column in table.near for table in tables)
        rank = f"{places[column]:.1f}" if len(found) else "–"
        lines.append(f"| {column} | {rank} | {best} | {near} | {number(statistics.median(seconds), 2)} |")
    return "\n".join(lines)


def ranks_in_words(tables: list[Table]) -> str:
    """Return what Friedman's test says of the mean ranks, and from which difference on two of them differ."""
    columns, found = ranked(tables)
    if len(found) < 2 or len(columns) < 2:
        return ""
    p = friedman(found)[1]
    chance = f"p = {p:.2g}" if p >= 1e-4 else "p < 0.0001"
    return (
        f"Mean ranks are over the {len(found)} tables on which every model ran (Friedman's test: {chance}); two that "
        f"are {critical_difference(len(columns), len(found)):.1f} or more apart differ (Nemenyi's test, 5 %)."
    )


def where_the_covariance_helps(tables: list[Table]) -> str:
    """Return the tables on which svnn and the same network without edges differ by more than two standard errors."""
    better, worse, compared = [], [], 0
    for table in tables:
        if not {"svnn", "without edges"} <= set(table.scores):
            continue
        compared += 1
        difference, error = paired(table.scores["svnn"], table.scores["without edges"])
        if abs(difference) > 2 * error:
            share = f" ({difference / table.means['without edges']:+.0%})" if table.means["without edges"] else ""
            (better if difference < 0 else worse).append(table.name + share.replace("-", "−"))
    if not compared:
        return ""
    others = compared - len(better) - len(worse)
    return (
        "svnn against the same network without edges, paired over the splits: the covariance lowers the error by more "
        f"than two standard errors on {_listed(better)}, raises it on {_listed(worse)}, and makes no such difference "
        f"on the rest ({others} of {compared} tables)."
    )


def against_other_models(tables: list[Table]) -> str:
    """Return how often svnn is the best, or within one standard error of it, where no network of ours counts."""
    best = near = own = 0
    compared = [table for table in tables if "svnn" in table.scores and len(table.scores) > 2]
    for table in compared:
        others = {column: values for column, values in table.scores.items() if column not in OUR_COLUMNS}
        rival = min(others, key=lambda column: table.means[column])
        difference, error = paired(table.scores["svnn"], others[rival])
        spread = paired(others[rival], [0.0] * len(others[rival]))[1]
        slack = 1e-9 * table.means[rival]  # means that differ by rounding are equal
        best += difference <= slack
        near += difference <= error + slack
        own += difference <= spread + slack
    if not compared:
        return ""
    return (
        f"Beside the models that are not ours, svnn is the best on {best} of {len(compared)} tables and within one "
        f"standard error of the best on {near}, taken from the differences on the same splits; on {own} where the "
        "standard error is that of the best model's own mean."
    )


def _listed(names: list[str]) -> str:
    return ", ".join(names) if names else "none"


def report(rows: list[Row]) -> str:
    """Return the README's part: tables and sentences in Markdown, made from the rows of the file alone."""
    tables = summarise(rows)
    if not tables:
        return "There are no results."
    splits = sorted({table.splits for table in tables})
    counted = str(splits[0]) if len(splits) == 1 else f"{splits[0]} to {splits[-1]}"
    legend = (
        f"Test errors, mean over {counted} random splits; less is better. The best of each row is bold, and an "
        "asterisk marks those within one standard error of it, taken from the differences on the same splits."
    )
    left_out = sorted({f"{row['model']} on {row['data']}" for row in rows if row["reason"]})
    gaps = f"Not run, since one fit takes more than two minutes: {_listed(left_out)}." if left_out else ""
    parts = [legend, score_table(tables), gaps, where_the_covariance_helps(tables), rank_table(tables, rows)]
    parts += [ranks_in_words(tables), against_other_models(tables)]
    return "\n\n".join(part for part in parts if part)
