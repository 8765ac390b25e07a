"""The sections of the page *Live*. *Table* and *History* show some of them too."""
