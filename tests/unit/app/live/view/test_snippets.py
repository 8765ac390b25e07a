"""Code that reads a mirror."""

import ast

import duckdb

from app.live.view.snippets import reading


def test_the_code_is_valid_whatever_the_folder() -> None:
    """Each language parses it, and the path survives."""
    folder = '/lake/it\'s/"x" 50%25'
    codes = {**reading(folder), **{name: code for name, code in reading("/a/b", folder).items() if "Iceberg" in name}}
    assert len(codes) == 6
    for name, (language, code) in codes.items():
        if name == "Spark (Iceberg)":
            assert "spark.table(\"lake.`it's`.`" in code
            assert "warehouse=/lake\n" in code
            continue
        if language == "sql":
            found = duckdb.extract_statements(code)[-1].query
            assert folder.replace("'", "''") in found
        else:
            texts = [node.value for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Constant)]
            assert folder in texts
