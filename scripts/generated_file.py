"""Files that the build generates."""


def write_if_changed(path, text):
    """Touches the file only where its text changes, so that an unchanged one rebuilds nothing."""
    try:
        with open(path, encoding="utf-8") as f:
            if f.read() == text:
                return
    except FileNotFoundError:
        pass
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
