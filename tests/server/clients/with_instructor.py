"""instructor gets pydantic models by OpenAI's chat and responses, and by Anthropic's messages:   with_instructor.py URL"""

import sys

import anthropic
import instructor
import openai
import pydantic

url = sys.argv[1]
Paint = pydantic.create_model("Paint", wet=(bool, ...), dry=(bool, ...))
asked = [{"role": "user", "content": "What is 2 + 3?"}]
ours = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
modes = instructor.Mode

for mode in (modes.TOOLS, modes.TOOLS_STRICT, modes.JSON_SCHEMA):
    client = instructor.from_openai(ours, mode=mode)
    made = client.chat.completions.create(
        model="tiny", messages=asked, response_model=Paint, max_retries=0, max_tokens=100
    )
    assert isinstance(made, Paint), (mode, made)

client = instructor.from_openai(ours, mode=modes.JSON_SCHEMA)
parts = client.chat.completions.create_partial(
    model="tiny", messages=asked, response_model=Paint, max_retries=0, max_tokens=100
)
*_, last = parts
assert (type(last.wet), type(last.dry)) == (bool, bool), last

client = instructor.from_openai(ours, mode=modes.RESPONSES_TOOLS)
made = client.responses.create(model="tiny", input=asked, response_model=Paint, max_retries=0)
assert isinstance(made, Paint), made

theirs = anthropic.Anthropic(base_url=url, api_key="none", max_retries=0)
client = instructor.from_anthropic(theirs)
made = client.messages.create(
    model="tiny", max_tokens=100, messages=asked, response_model=Paint, max_retries=0
)
assert isinstance(made, Paint), made
