"""A web application that labels texts, on Starlette (pip install starlette uvicorn).

    export MODEL=folder OMP_NUM_THREADS=1
    uvicorn --app-dir examples --factory server:application
    curl localhost:8000 -d '["where is my parcel"]'

MODEL is a folder that `sklearn_spt.save` wrote; it is loaded once. To renew it, save another model
there with ``overwrite=True``, and call

    curl -X POST localhost:8000/reload

Requests that have begun get their answer from the old model. Each of several workers has a model of
its own: with ``--workers 2 --timeout-worker-healthcheck 60``, ``kill -HUP`` of their parent takes
the place of that call.
"""

import json
import os

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

import sklearn_spt


def labels(clf, texts):
    """Return the most probable label of each text, and its probability."""
    P = clf.predict_proba(texts)
    found = clf.classes_[P.argmax(axis=1)]
    return {"labels": found.tolist(), "probabilities": P.max(axis=1).tolist()}


async def predict(request):
    """Answer a list of texts."""
    state = request.app.state
    try:
        texts = json.loads(await request.body())
        if not isinstance(texts, list) or len(texts) > 50:
            raise ValueError("send a list of 1 to 50 texts, as JSON.")
        return JSONResponse(await run_sync(labels, state.clf, texts, limiter=state.threads))
    except (TypeError, ValueError) as error:  # those of the library name the row
        return JSONResponse({"error": str(error)}, status_code=422)


async def reload(request):
    """Load the folder again; until that is done, the old model answers."""
    request.app.state.clf = await run_sync(sklearn_spt.load, os.environ["MODEL"])
    return JSONResponse({"loaded": os.environ["MODEL"]})


def application():
    """Load the model and return the application."""
    routes = [Route("/", predict, methods=["POST"]), Route("/reload", reload, methods=["POST"])]
    app = Starlette(routes=routes)
    app.state.clf = sklearn_spt.load(os.environ["MODEL"])
    app.state.threads = CapacityLimiter(os.cpu_count() or 1)  # more would only wait
    return app
