// A JSON parser that keeps what `JSON.parse` loses: the order of members, the digits of numbers,
// the place of each value, and the line and column of an error.

const DEEPEST = 400;

export class JsonError extends Error {
  constructor(message, text, offset) {
    super(message);
    Object.assign(this, { offset }, lineAndColumn(text, offset));
  }
}

// JSON text that is sent as it was typed: `JSON.parse` loses digits and the order of members.
export class RawJson {
  constructor(text) {
    this.text = text;
  }
}

// Returns the JSON text of a value that may contain `RawJson`.
export function stringify(value) {
  const texts = [];
  const mark = `raw-${Math.random()}-`;
  const json = JSON.stringify(value, (_, one) => (one instanceof RawJson ? mark + (texts.push(one.text) - 1) : one));
  return json.replace(new RegExp(`"${mark}(\\d+)"`, "g"), (_, index) => texts[index]);
}

// Describes a place in a text, as `line 1, column 2: `. Empty without a line.
export const placeInWords = ({ line, column }) => (line ? `line ${line}, column ${column}: ` : "");

export function lineAndColumn(text, offset) {
  const before = text.slice(0, offset).split("\n");
  return { line: before.length, column: [...before.at(-1)].length + 1 };
}

// Returns the offset of a line and column, both counted from 1; columns count characters.
export function offsetOf(text, line, column) {
  const lines = text.split("\n");
  const before = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
  return before + [...(lines[line - 1] ?? "")].slice(0, column - 1).join("").length;
}

// Parses a text into nodes: {type, pointer, start, end, text, value, members, items}. The value of a member also has
// `nameStart`, where its name starts.
export function parseJson(text) {
  let at = 0;
  const fail = (message, offset = at) => {
    throw new JsonError(message, text, offset);
  };
  const found = () => (at < text.length ? `\`${String.fromCodePoint(text.codePointAt(at))}\`` : "the end of the text");
  const space = () => {
    while (at < text.length && " \t\n\r".includes(text[at])) at += 1;
  };

  function string() {
    const start = at;
    at += 1;
    while (text[at] !== '"') {
      if (at >= text.length) fail("the string has no closing quote", start);
      if (text[at] < " ") fail("a line break or control character must be escaped in a string");
      if (text[at] === "\\") {
        const escape = /^\\(["\\/bfnrt]|u[0-9a-fA-F]{4})/.exec(text.slice(at, at + 6));
        if (!escape) fail("unknown escape in a string");
        at += escape[0].length;
      } else at += 1;
    }
    at += 1;
    return JSON.parse(text.slice(start, at));
  }

  function object(node, depth) {
    node.members = [];
    at += 1;
    space();
    if (text[at] === "}") return void (at += 1);
    while (true) {
      space();
      if (text[at] !== '"') fail(`expected a name in double quotes, found ${found()}`);
      const nameStart = at;
      const name = string();
      space();
      if (text[at] !== ":") fail(`expected \`:\`, found ${found()}`);
      at += 1;
      const escaped = name.replaceAll("~", "~0").replaceAll("/", "~1");
      node.members.push([name, Object.assign(value(`${node.pointer}/${escaped}`, depth + 1), { nameStart })]);
      space();
      if (text[at] === "}") return void (at += 1);
      if (text[at] !== ",") fail(`expected \`,\` or \`}\`, found ${found()}`);
      at += 1;
    }
  }

  function array(node, depth) {
    node.items = [];
    at += 1;
    space();
    if (text[at] === "]") return void (at += 1);
    while (true) {
      node.items.push(value(`${node.pointer}/${node.items.length}`, depth + 1));
      space();
      if (text[at] === "]") return void (at += 1);
      if (text[at] !== ",") fail(`expected \`,\` or \`]\`, found ${found()}`);
      at += 1;
    }
  }

  function value(pointer, depth) {
    if (depth > DEEPEST) fail(`nested deeper than ${DEEPEST} levels`);
    space();
    const node = { pointer, start: at };
    if (text[at] === "{") {
      node.type = "object";
      object(node, depth);
    } else if (text[at] === "[") {
      node.type = "array";
      array(node, depth);
    } else if (text[at] === '"') {
      node.type = "string";
      node.value = string();
    } else {
      const scalar = /(-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?|true|false|null)/y;
      scalar.lastIndex = at;
      const match = scalar.exec(text);
      if (!match) fail(`expected a value, found ${found()}`);
      at += match[0].length;
      node.type = /[-\d]/.test(match[0][0]) ? "number" : "literal";
    }
    node.end = at;
    node.text = text.slice(node.start, node.end);
    return node;
  }

  const root = value("", 0);
  space();
  if (at < text.length) fail(`expected the end of the text, found ${found()}`);
  return root;
}

// Returns the text with each member and item in a line of its own. Text that is not JSON stays as it is.
export function indented(text) {
  try {
    return layOut(parseJson(text), "");
  } catch (error) {
    if (!(error instanceof JsonError)) throw error;
    return text;
  }
}

function layOut(node, indent) {
  const lines = node.members?.map(([name, child]) => `${JSON.stringify(name)}: ${layOut(child, `${indent}  `)}`)
    ?? node.items?.map((child) => layOut(child, `${indent}  `));
  if (!lines?.length) return node.text;
  const [open, close] = node.members ? "{}" : "[]";
  return `${open}\n${lines.map((line) => `${indent}  ${line}`).join(",\n")}\n${indent}${close}`;
}

// Returns the node at a JSON pointer, or the deepest node on the way there.
export function nodeAt(root, pointer) {
  let node = root;
  for (;;) {
    const children = node.items ?? node.members?.map(([, child]) => child) ?? [];
    const next = children.find((child) => pointer === child.pointer || pointer.startsWith(`${child.pointer}/`));
    if (!next) return node;
    node = next;
  }
}
