"""Models of scikit-learn and LightGBM, converted: as onnxruntime has them, and their library."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import cuvil
from tests.frontends.ml_models import assert_same, run_ort

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
sklearn = pytest.importorskip("sklearn")
skl2onnx = pytest.importorskip("skl2onnx")

from skl2onnx.common.data_types import StringTensorType  # noqa: E402
from sklearn import (  # noqa: E402
    cluster,
    datasets,
    decomposition,
    ensemble,
    impute,
    linear_model,
    naive_bayes,
    neighbors,
    neural_network,
    pipeline,
    preprocessing,
    svm,
    tree,
)  # fmt: skip

Array = np.ndarray[Any, Any]
NAMES = np.array(["ant", "bee", "cat", "dog"])


def _regression() -> tuple[Array, Array]:
    x, y = datasets.make_regression(300, 10, noise=3, random_state=0)
    return x.astype(np.float32), y


def _classes(count: int) -> tuple[Array, Array]:
    x, y = datasets.make_classification(
        300, 10, n_informative=7, n_classes=count, random_state=count
    )
    return x.astype(np.float32), y


def _holes(x: Array) -> Array:
    rng = np.random.default_rng(0)
    return np.where(rng.random(x.shape) < 0.1, np.float32(np.nan), x)


REGRESSORS = {
    "linear": linear_model.LinearRegression(),
    "tree": tree.DecisionTreeRegressor(random_state=0),
    "forest": ensemble.RandomForestRegressor(30, random_state=0),
    "extra trees": ensemble.ExtraTreesRegressor(30, random_state=0),
    "boosting": ensemble.GradientBoostingRegressor(n_estimators=40, random_state=0),
    "svr": svm.SVR(), "nu svr": svm.NuSVR(kernel="poly"), "svr sigmoid": svm.SVR(kernel="sigmoid"),
    "neighbors": neighbors.KNeighborsRegressor(),
    "network": neural_network.MLPRegressor(hidden_layer_sizes=(20,), random_state=0),
    "pipeline": pipeline.make_pipeline(
        impute.SimpleImputer(), preprocessing.StandardScaler(), decomposition.PCA(5),
        linear_model.Ridge(),
    ),
}  # fmt: skip
CLASSIFIERS = {
    "logistic": linear_model.LogisticRegression(),
    "linear svc": svm.LinearSVC(random_state=0),
    "svc": svm.SVC(), "svc probabilities": svm.SVC(probability=True, random_state=0),
    "tree": tree.DecisionTreeClassifier(max_depth=6, random_state=0),
    "forest": ensemble.RandomForestClassifier(31, random_state=0),
    "extra trees": ensemble.ExtraTreesClassifier(31, random_state=0),
    "boosting": ensemble.GradientBoostingClassifier(n_estimators=20, random_state=0),
    "ada": ensemble.AdaBoostClassifier(n_estimators=10, random_state=0),
    "network": neural_network.MLPClassifier((16,), random_state=0),
    "neighbors": neighbors.KNeighborsClassifier(5),
    "bayes": naive_bayes.GaussianNB(), "bernoulli": naive_bayes.BernoulliNB(),
}  # fmt: skip
TRANSFORMERS = {
    "scaler": preprocessing.StandardScaler(), "min max": preprocessing.MinMaxScaler(),
    "norm": preprocessing.Normalizer("l1"), "binarizer": preprocessing.Binarizer(),
    "imputer": impute.SimpleImputer(strategy="median"), "means": cluster.KMeans(4, n_init=2),
    "powers": preprocessing.PolynomialFeatures(2),
}  # fmt: skip


def _converted(model: Any, x: Array, **more: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        opset = {"": 18, "ai.onnx.ml": 3}
        return skl2onnx.to_onnx(model, None if more else x[:1], target_opset=opset, **more)


def _check(proto: Any, inputs: dict[str, Array], tolerance: float = 2e-4) -> dict[str, Any]:
    found = cuvil.compile(proto).run(inputs)
    wanted = run_ort(proto, inputs)
    assert_same(found, wanted, tolerance)
    return found


@pytest.mark.parametrize("name", list(REGRESSORS))
def test_regressors(name: str) -> None:
    x, y = _regression()
    x = _holes(x) if name == "pipeline" else x
    model = REGRESSORS[name].fit(x, y)
    found = _check(_converted(model, x), {"X": x[:70]})
    np.testing.assert_allclose(found["variable"].ravel(), model.predict(x[:70]), rtol=1e-3,
                               atol=1e-3 * np.abs(y).max())  # fmt: skip


@pytest.mark.parametrize("kind", ["two", "four", "words"])
@pytest.mark.parametrize("name", list(CLASSIFIERS))
def test_classifiers(name: str, kind: str) -> None:
    x, y = _classes(2 if kind == "two" else 4)
    y = NAMES[y] if kind == "words" else y
    model = CLASSIFIERS[name].fit(x, y)
    found = next(iter(_check(_converted(model, x), {"X": x[:70]}, 1e-3).values()))
    assert (found.ravel() == model.predict(x[:70])).all()


@pytest.mark.parametrize("name", list(TRANSFORMERS))
def test_transformers(name: str) -> None:
    x, _ = _regression()
    x = _holes(x) if name == "imputer" else x
    _check(_converted(TRANSFORMERS[name].fit(x), x), {"X": x[:70]})


def test_columns_of_words() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.choice(NAMES, (200, 2)).astype(object), rng.choice(NAMES, 200)
    encoder = preprocessing.OneHotEncoder(handle_unknown="ignore")
    model = pipeline.make_pipeline(encoder, linear_model.LogisticRegression()).fit(x, y)
    proto = _converted(model, x, initial_types=[("x", StringTensorType([None, 2]))])
    test = np.vstack([x[:20], [["emu", "ant"]]]).astype(object)
    found = _check(proto, {"x": test})
    assert (found["output_label"] == model.predict(test)).all()


@pytest.mark.parametrize("kind", ["regression", "holes", "two", "four", "categories"])
def test_lightgbm(kind: str) -> None:
    lightgbm = pytest.importorskip("lightgbm")
    onnxmltools = pytest.importorskip("onnxmltools")
    from onnxmltools.convert.common.data_types import FloatTensorType

    if kind in ("two", "four"):
        x, y = _classes(2 if kind == "two" else 4)
        model = lightgbm.LGBMClassifier(n_estimators=20, verbose=-1).fit(x, y)
    else:
        x, y = _regression()
        x = _holes(x) if kind == "holes" else x
        x[:, 3] = np.random.default_rng(0).integers(0, 12, len(x))
        more = {"categorical_feature": [3]} if kind == "categories" else {}
        settings = {"n_estimators": 20, "verbose": -1, "min_data_per_group": 5, "cat_smooth": 1}
        model = lightgbm.LGBMRegressor(**settings).fit(x, y + 9 * x[:, 3], **more)
    types = [("x", FloatTensorType([None, x.shape[1]]))]
    proto = onnxmltools.convert_lightgbm(model, initial_types=types, target_opset=15)
    found = next(iter(_check(proto, {"x": x[:70]}).values()))
    np.testing.assert_allclose(found.ravel(), model.predict(x[:70]), rtol=1e-3, atol=1e-2)


def test_neighbours_of_rows_with_holes() -> None:
    """The conversion has branches of two ranks, of which the rest fits one: a row without any
    number leads to the other, where onnxruntime fails too."""
    x = _holes(_regression()[0][:, :4])
    model = impute.KNNImputer(n_neighbors=2).fit(x[20:80])
    proto = skl2onnx.to_onnx(model, x[:1])
    compiled = cuvil.compile(proto)
    rows = x[~np.isnan(x).all(1)][:60]
    for given in (rows, rows[:1], np.nan_to_num(rows)):
        np.testing.assert_allclose(compiled(given), model.transform(given), rtol=1e-5)
    rows[3] = np.nan
    with pytest.raises(cuvil.ShapeConstraintError, match="its branches differ: output 1 has rank"):
        compiled(rows)
