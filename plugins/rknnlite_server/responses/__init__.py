"""OpenAI's ``/v1/responses``: requests are put into the words of chat and read there; answers become items.

* ``routes``: an answer, whole or as named events, and what is kept of it.
* Requests: ``response_request`` (all fields), ``input_items`` (what was said, as messages).
* Answers: ``output_items`` (thoughts, text, calls and their events), ``stored_responses`` (those to go on from).
"""
