"""What a disk would hold after a power cut: file operations are recorded, and those that were not synced are undone."""
