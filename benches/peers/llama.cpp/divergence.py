"""The divergence of engines from the same weights in f32: texts to compare along, and the computation."""

import numpy

TEXTS = [
    # English
    "The lighthouse keeper had not spoken to anyone for three weeks when, one grey morning,",
    "Photosynthesis is the process by which plants",
    "Q: What is the capital of Australia, and why was it not Sydney or Melbourne?\nA:",
    "Dear Ms. Okafor,\n\nThank you for your letter of 14 March. I am sorry to hear that the parcel arrived damaged, and",
    "To make a simple vegetable soup for four people, you need the following ingredients:\n\n1.",
    "In 1969, Apollo 11 landed on the Moon. The three astronauts on board were",
    "Shall I compare thee to a summer's day?\nThou art more lovely and more temperate:\n",
    "The quarterly report shows that revenue grew by 12.5% to $4.2 million, while operating costs fell by 3%. The"
    " board therefore recommends, subject to approval by the shareholders at the general meeting in June,",
    # code and data
    "def fibonacci(n):\n    \"\"\"Return the n-th Fibonacci number.\"\"\"\n    if n < 2:\n        return n\n",
    "fn main() {\n    let words = vec![\"alpha\", \"beta\", \"gamma\"];\n"
    "    for (index, word) in words.iter().enumerate() {\n",
    "SELECT customers.name, SUM(orders.total)\nFROM customers\nJOIN orders ON",
    "{\"name\": \"Ada Lovelace\", \"born\": 1815, \"fields\": [\"mathematics\",",
    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n  <meta charset=\"utf-8\">\n  <title>",
    "#include <stdio.h>\n\nint main(int argc, char **argv) {\n",
    # other languages
    "Es war einmal ein König, der hatte drei Söhne. Der jüngste von ihnen",
    "La Révolution française a commencé en 1789 lorsque",
    "El cambio climático es uno de los mayores problemas",
    "日本の首都は東京です。日本で一番高い山は",
    "Москва — столица России. Самая длинная река",
    "المدينة القديمة تقع على",
]


def log_softmax(rows):
    rows = rows.astype(numpy.float64)
    rows -= rows.max(axis=1, keepdims=True)
    rows -= numpy.log(numpy.exp(rows).sum(axis=1, keepdims=True))
    return rows


def divergence(p, q):
    """KL(p || q) of each step, from logprobs."""
    return (numpy.exp(p) * (p - q)).sum(axis=1)
