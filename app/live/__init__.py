"""The parts of *Live*, some of which *Table* and *History* show too."""
