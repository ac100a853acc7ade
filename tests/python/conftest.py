import openai
import pytest

import quire_server


def skip_without(*paths):
    for path in paths:
        if not path.exists():
            pytest.skip(f"{path} is missing; run make test, or tools/models fetch all")


@pytest.fixture(scope="module", params=sorted(quire_server.MODEL_FILES))
def server(request, tmp_path_factory):
    """One server for the tests of a module, once with each model."""
    model = quire_server.model_path(request.param)
    skip_without(quire_server.binary(), model)
    with quire_server.QuireServer(model, tmp_path_factory.mktemp(request.param)) as running:
        yield running


@pytest.fixture(scope="module")
def client(server):
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0,
                       timeout=300) as one:
        yield one


@pytest.fixture(scope="module")
def model(client):
    return client.models.list().data[0].id


@pytest.fixture
def chat_model(client, model):
    """The model's name, for tests that chat; a base model without a template is refused clearly."""
    try:
        client.chat.completions.create(model=model, messages=[{"role": "user", "content": "Hi"}],
                                       max_tokens=1)
    except openai.BadRequestError as refusal:
        assert "no chat template" in str(refusal)
        pytest.skip("the model brings no chat template, and the server says so")
    return model
