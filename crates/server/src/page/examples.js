// Small examples of constraints and tools, as pairs of a name and a text.

const schema = (value) => JSON.stringify(value, null, 2);

const object = (properties) => ({
  type: "object", properties, required: Object.keys(properties), additionalProperties: false,
});

export const EXAMPLES = {
  json_schema: [
    ["Answer and reason", schema(object({
      answer: { enum: ["yes", "no"] }, reason: { type: "string", maxLength: 120 },
    }))],
    ["Person", schema(object({
      name: { type: "string", minLength: 1, maxLength: 40 },
      age: { type: "integer", minimum: 0, maximum: 120 },
      email: { type: ["string", "null"], format: "email" },
    }))],
    ["Review", schema(object({
      product: { type: "string", minLength: 1, maxLength: 50 },
      stars: { enum: [1, 2, 3, 4, 5] },
      pros: { type: "array", items: { type: "string", minLength: 1, maxLength: 40 }, maxItems: 3 },
      summary: { type: "string", minLength: 10, maxLength: 120 },
    }))],
    ["Calendar event", schema(object({
      title: { type: "string", minLength: 1, maxLength: 60 },
      date: { type: "string", format: "date" },
      kind: { enum: ["meeting", "holiday", "birthday"] },
      all_day: { type: "boolean" },
    }))],
    ["List of steps", schema({
      type: "array", minItems: 2, maxItems: 5,
      items: object({ step: { type: "string", minLength: 1, maxLength: 60 }, minutes: { type: "integer", minimum: 1, maximum: 90 } }),
    })],
  ],
  gbnf: [
    ["Yes or no", 'root ::= ("yes" | "no") ", because " [^\\n.]{1,80} "."'],
    ["Arithmetic", 'root ::= sum\nsum ::= product | sum (" + " | " - ") product\nproduct ::= factor | product (" * " | " / ") factor\n'
      + 'factor ::= number | "(" sum ")"\nnumber ::= "0" | [1-9] [0-9]{0,3}'],
    ["Markdown list", 'root ::= item{2,5}\nitem ::= "- " text "\\n"\ntext ::= [^\\n\\r -] [^\\n\\r]{0,60}'],
    ["Date", 'root ::= year "-" month "-" day\nyear ::= [0-9]{4}\nmonth ::= "0" [1-9] | "1" [0-2]\nday ::= "0" [1-9] | [12] [0-9] | "3" [01]'],
    ["CSV records", 'root ::= "name,age\\n" record{1,5}\nrecord ::= [A-Z] [a-z]{1,12} "," [1-9] [0-9]? "\\n"'],
  ],
  lark: [
    ["Greeting", 'start: ("Hello" | "Good day") ", " NAME "!"\nNAME: /[A-Z][a-z]{1,12}/'],
    ["Calculator", 'start: expression\n?expression: expression ("+" | "-") product | product\n?product: product ("*" | "/") atom | atom\n'
      + '?atom: NUMBER | "(" expression ")"\n\n%import common.NUMBER'],
    ["Time of day", 'start: HOUR ":" MINUTE [":" MINUTE]\nHOUR: /[01][0-9]|2[0-3]/\nMINUTE: /[0-5][0-9]/'],
    ["Settings", 'start: pair+\npair: KEY " = " VALUE "\\n"\nKEY: /[a-z][a-z_]{0,15}/\nVALUE: /[0-9]{1,5}/ | "true" | "false"'],
    ["SQL query", 'start: "SELECT " columns " FROM " NAME [" WHERE " condition] ";"\ncolumns: "*" | NAME (", " NAME)*\n'
      + 'condition: NAME (" = " | " < " | " > ") NUMBER\nNAME: /[a-z][a-z_]{0,15}/\nNUMBER: /[0-9]{1,6}/'],
  ],
  regex: [
    ["Phone number", "\\+[1-9][0-9]{1,2} [0-9]{3} [0-9]{4,7}"],
    ["Date", "[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"],
    ["One sentence", "[A-Z][a-zA-Z ,']{10,100}\\."],
    ["Hex colour", "#[0-9a-f]{6}"],
    ["Version number", "v(0|[1-9][0-9]?)\\.(0|[1-9][0-9]?)\\.(0|[1-9][0-9]?)"],
  ],
  tags: [
    ["A call in free text", schema({ type: "structural_tag", format: {
      type: "triggered_tags", triggers: ["<weather>"],
      tags: [{ begin: "<weather>", end: "</weather>", content: { type: "json_schema", json_schema: object({ city: { type: "string", maxLength: 40 } }) } }],
    } })],
    ["A reason, then an answer", schema({ type: "structural_tag", format: {
      type: "sequence", elements: [
        { type: "tag", begin: "<reason>", end: "</reason>", content: { type: "any_text" } },
        { type: "tag", begin: "<answer>", end: "</answer>", content: { type: "regex", pattern: "yes|no" } },
      ],
    } })],
    ["An answer by grammar", schema({ type: "structural_tag", format: {
      type: "tag", begin: "<date>", end: "</date>",
      content: { type: "grammar", grammar: 'root ::= [0-9]{4} "-" [0-9]{2} "-" [0-9]{2}' },
    } })],
  ],
  fields: [
    ["Character", "name: Character\nfields:\n  - { name: name, type: string, min_length: 3, max_length: 20 }\n"
      + "  - { name: age, type: int, min: 0, max: 120 }\n  - { name: class, type: choice, options: [warrior, mage, rogue] }\n"],
    ["Loot with weights", "name: Loot\nfields:\n  - { name: item, type: string, min_length: 3, max_length: 30, characters: \"a-zA-Z '-\" }\n"
      + "  - { name: rarity, type: choice, options: [common, rare, legendary], weights: [70, 25, 5] }\n"
      + "  - { name: curse, type: string, max_length: 60, optional: true, probability: 0.2 }\n"],
    ["One of two events", "name: Event\nfields:\n  - name: event\n    type: variant\n    variants:\n"
      + "      - { name: battle, fields: [{ name: enemies, type: int, min: 1, max: 20 }] }\n"
      + "      - { name: talk, fields: [{ name: speaker, type: string, min_length: 3, max_length: 20 }, "
      + "{ name: line, type: template, template: \"<generated>, stranger.\", min_length: 2, max_length: 20 }] }\n"],
  ],
  choices: [
    ["Yes, no, unsure", "yes\nno\nunsure"],
    ["Sentiment", "positive\nneutral\nnegative"],
    ["Team", "billing\ntechnical support\nsales"],
    ["Urgency", "low\nmedium\nhigh"],
    ["Language", "English\nGerman\nFrench\nSpanish\nother"],
  ],
};

export const TOOLS_EXAMPLE = schema([{
  type: "function",
  function: {
    name: "get_weather",
    description: "Returns the weather of a city.",
    parameters: object({ city: { type: "string", maxLength: 40 }, unit: { enum: ["celsius", "fahrenheit"] } }),
  },
}]);
