"""Code that reads a mirror with the tools that people have at hand."""


def reading(place: str) -> dict[str, tuple[str, str]]:
    """By tool, the language and a few lines.

    All of them are right with deletion vectors. place: the folder of the mirror.
    """
    text = place.replace("'", "''")
    return {
        "DuckDB": ("sql", f"INSTALL delta; LOAD delta;\nSELECT * FROM delta_scan('{text}') LIMIT 10;"),
        "Spark": ("python", f'spark.read.format("delta").load({place!r}).show(10)'),
        "Polars, pandas": (
            "python",
            f"import polars as pl\nframe = pl.scan_delta({place!r}).head(10).collect()\nframe.to_pandas()",
        ),
    }
