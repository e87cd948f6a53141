"""Keeps what is computed short: what a model writes means nothing here, and only takes time."""

import schemathesis

LIMITS = {
    "/v1/chat/completions": ["max_tokens", "max_completion_tokens"],
    "/v1/directives": ["max_tokens", "max_completion_tokens"],
    "/v1/completions": ["max_tokens", "max_completion_tokens"],
    "/v1/responses": ["max_output_tokens", "max_tokens", "max_completion_tokens"],
}
TOKENS = 16
# Examples in the document have limits of their own, up to this one.
MOST = 80


@schemathesis.hook
def before_call(context, case, kwargs):
    if not isinstance(case.body, dict):
        return
    texts = case.body.get("input")
    # As long as the document allows; what is longer is refused at once.
    if isinstance(texts, list) and 8 < len(texts) <= 2048:
        case.body["input"] = texts[:8]
    names = LIMITS.get(case.operation.path)
    if names is None:
        return
    for name in ["n", "best_of"]:
        if type(case.body.get(name)) is int:
            case.body[name] = min(case.body[name], 2)
    if type(case.body.get("repair_retries")) is int:
        case.body["repair_retries"] = min(case.body["repair_retries"], 1)
    given = [name for name in names if case.body.get(name) is not None]
    if not given:
        case.body[names[0]] = TOKENS
    for name in given:
        if type(case.body[name]) is int and case.body[name] > MOST:
            case.body[name] = TOKENS
