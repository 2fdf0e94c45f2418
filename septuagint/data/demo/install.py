"""Sets the demo up in a folder: its configuration in `configs/`, its text in `data/demo/`."""

from importlib.resources import files
from pathlib import Path

from septuagint.data.demo.corpus import write_demo_corpus
from septuagint.errors import writing_to


def install_demo(folder: Path) -> Path:
    """Writes what is not there yet; the path of the configuration, which stays as the user left it."""
    config = folder / "configs" / "demo.toml"
    with writing_to(folder):
        if not config.exists():
            config.parent.mkdir(parents=True, exist_ok=True)
            config.write_bytes(files("septuagint.data.demo").joinpath("demo.toml").read_bytes())
        write_demo_corpus(folder / "data" / "demo")
    return config
