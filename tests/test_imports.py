"""Imports point one way: program, services that own time, stages that own files, core, shared words."""

import ast
from pathlib import Path

import septuagint

ROOT = Path(septuagint.__file__).parent

# From the bottom to the top. A module imports from its own layer and from those before it.
LAYERS = [
    set("__init__ errors config config_file batch world machine telemetry.events".split())
    | set("data.__init__ model.__init__ model.kernels.__init__ training.__init__ inference.__init__".split())
    | {"telemetry.__init__"}
    | set("cluster.__init__ report.__init__ report.reading.__init__ report.diagnosis.__init__".split())
    | set("report.drawing.__init__ report.page.__init__".split()),
    # core: values in, values out
    set("data.normaliser data.scripts data.filters data.vocabulary data.sentences data.order data.packing".split())
    | {"data.addresses", "data.seeds"}
    | set("model.attention model.dropout model.loss model.transformer model.fast".split())
    | set("model.kernels.attention model.kernels.residual model.kernels.activation model.kernels.embedding".split())
    | set("model.kernels.loss model.kernels.sums".split())
    | set("inference.search inference.slot_queue inference.slots inference.gpu_kernels inference.beam".split())
    | set("inference.vocabulary_map".split())
    | set("inference.length_batches inference.ngrams inference.scoring inference.segmenter".split())
    | set("inference.text_checks inference.argos_sentences inference.spelled".split())
    | set("training.muon training.optimizer training.precision training.recorder training.step".split())
    | set("training.meter training.memory".split())
    | set("training.synchrony training.agreement".split())
    | set("telemetry.wording telemetry.stopwatch cluster.probe training.timekeeper".split()),
    # the record of a run is read once; what is made of it are values, too
    set("report.reading.fields report.reading.attempts report.reading.happenings report.reading.step_table".split())
    | set("report.reading.train_table report.reading.machine_table report.reading.record_files".split())
    | {"report.reading.record"},
    set("report.answer report.contents report.quantities".split())
    | set("report.diagnosis.phrases report.diagnosis.fits report.diagnosis.curves report.diagnosis.time_use".split())
    | set("report.diagnosis.duration report.diagnosis.fully_trained report.diagnosis.overfitting".split())
    | set("report.diagnosis.devices report.diagnosis.network report.diagnosis.traffic report.diagnosis.rate".split())
    | set("report.diagnosis.holdings report.diagnosis.step_times report.diagnosis.bottleneck".split())
    | set("report.diagnosis.incidents report.diagnosis.diagnose".split()),
    set("report.drawing.markup report.drawing.axes report.drawing.picture report.drawing.thinning".split())
    | set("report.drawing.charts report.drawing.bars report.drawing.plot report.drawing.plots".split())
    | set("report.drawing.plots_of_learning report.drawing.plots_of_time report.drawing.plots_of_machines".split())
    | set("report.page.highlights report.page.facts report.page.comparing report.page.page".split())
    | set("report.page.comparison_page report.page.markdown".split()),
    # stages: they own files
    set("data.files data.kept data.folders data.archives data.corpus data.duplicates data.manifest".split())
    | set("data.shards data.parts data.sample".split())
    | set("training.checkpoint_files training.checkpoint training.retention training.run_folder".split())
    | set("inference.artifact inference.argos inference.ctranslate2_model inference.hugging_face".split())
    | set("inference.model_card inference.text_stream inference.training_text".split())
    | {"telemetry.tensorboard", "report.report"},
    # services: they own time, processes and threads
    set("progress data.workers data.plan data.cleaning data.encoding data.joining data.prepare data.summary".split())
    | set("data.downloads data.named_corpora data.mtdata_process data.mtdata_reader".split())
    | set("data.dataset data.loader telemetry.console telemetry.gpus telemetry.monitor".split())
    | set("training.validation training.state training.signals training.checkpoint_writer".split())
    | set("training.launcher training.rendezvous training.watch training.exchange training.workers".split())
    | set("training.setting training.opening training.loop training.best training.train training.summary".split())
    | set("inference.translator inference.translation_output inference.parity inference.export".split())
    | {"inference.trained"}
    | set("inference.evaluation inference.evaluation_summary inference.export_summary inference.scored_sets".split()),
    {"program", "cli"},
]
# The demo's grammar is a world of its own; nothing but its installation is known outside.
DEMO = "data.demo."


def imports_of(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("septuagint"):
            names = {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
            found |= {name.removeprefix("septuagint.") for name in names}
    return found


def modules() -> dict[str, Path]:
    return {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in ROOT.rglob("*.py")}


def layer_of(module: str) -> int:
    return next(index for index, layer in enumerate(LAYERS) if module in layer)


def test_every_module_has_a_layer_and_every_layer_exists():
    placed = set().union(*LAYERS)
    assert {name for name in modules() if not name.startswith(DEMO)} == placed


def test_imports_point_one_way():
    known = set(modules())
    for module, path in modules().items():
        if module.startswith(DEMO):
            continue
        for imported in imports_of(path) & known:
            if not imported.startswith(DEMO):
                assert layer_of(imported) <= layer_of(module), f"{module} imports {imported}"


def test_only_the_demo_knows_its_grammar():
    for module, path in modules().items():
        inner = {name for name in imports_of(path) if name.startswith(DEMO)}
        if not module.startswith(DEMO):
            assert all(name.startswith("data.demo.install") for name in inner), module


def test_nothing_is_imported_in_a_circle():
    graph = {module: imports_of(path) & set(modules()) for module, path in modules().items()}
    finished: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, " -> ".join((*path, module))
        if module not in finished:
            for imported in graph[module] - {module}:
                visit(imported, (*path, module))
            finished.add(module)

    for module in graph:
        visit(module, ())
