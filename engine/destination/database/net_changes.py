"""What changes leave of each key: its last image. Earlier images of the same batch are overwritten anyway."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.decode.schema import TM_KIND

_NUMBER = "_tm_number"


def net_changes(images: pa.Table, key: Sequence[str]) -> tuple[pa.Table, pa.Table]:
    """The rows that are left, and the keys that are gone, of a part of a change log in order."""
    numbered = images.select([*key]).append_column(_NUMBER, pa.array(np.arange(images.num_rows)))
    last = numbered.group_by([*key], use_threads=False).aggregate([(_NUMBER, "max")])[f"{_NUMBER}_max"]
    newest = images.take(last)
    is_gone = pc.starts_with(newest[TM_KIND], "-")
    return newest.filter(pc.invert(is_gone)), newest.filter(is_gone).select([*key])
