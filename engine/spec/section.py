"""The base of a spec's sections."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A table of the TOML file. Unknown keys are errors; each key's docstring is its documentation."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)
