/** docs/configuration.md, the reference of all keys, from config/gateway.schema.json. */
import { readFileSync } from 'node:fs'

interface Part {
  readonly description?: string
  readonly default?: unknown
  readonly required?: readonly string[]
  readonly properties?: Readonly<Record<string, Part>>
  readonly items?: Part
  readonly additionalProperties?: Part | boolean
  readonly anyOf?: readonly Part[]
  readonly enum?: readonly unknown[]
}

const INTRODUCTION = `# Configuration reference

Made from \`config/gateway.schema.json\` by \`npm run schema\`; [config/gateway.yaml](../config/gateway.yaml) is the same as a file with every default, and [config/production.yaml](../config/production.yaml) one to start from.

Any value may come from the environment: \`\${NAME}\`. Durations are whole numbers with a unit (\`500ms\`, \`10s\`, \`5m\`, \`2h\`, \`1d\`), sizes too (\`64KiB\`, \`1MiB\`). Paths are relative to the file that names them. An unknown key is an error with a suggestion; \`tollgate check --config FILE\` tells all errors, with file, line and column. \`server.listen\`, \`server.workers\`, \`admin.listen\` and \`store\` need a restart, everything else is taken by a reload.

A dash means that there is no default: the key is left out, or must be given (**required**, within its group). \`[]\` stands for each entry of a list, \`NAME\` for a name of your own.
`

/** One group of keys under a heading: those of each level, and of each form that a value may have. */
function rows(part: Part, path: string, required: boolean): string[] {
  const { description = '', properties, items, additionalProperties, anyOf } = part
  const forms = (anyOf ?? []).filter(({ properties: own }) => own !== undefined)
  const isGroup = properties !== undefined && part.default === undefined
  const text = description.replace(/ ?Default: .*?\\.$|Default: .*$/, '').trim()
  const standard = part.default === undefined || part.default === '' ? '–' : code(part.default)
  const mark = required ? '**required** ' : ''
  const own =
    path === '' || (isGroup && text === '') ? [] : [row(code(path), standard, mark + text)]
  const below = (inner: Part, where: string): string[] =>
    Object.entries(inner.properties ?? {}).flatMap(([key, value]) =>
      rows(value, where === '' ? key : `${where}.${key}`, inner.required?.includes(key) ?? false),
    )
  const inItems = items?.properties === undefined ? [] : below(items, `${path}[]`)
  const named =
    typeof additionalProperties === 'object' ? below(additionalProperties, `${path}.NAME`) : []
  const all = [...own, ...below(part, path), ...inItems, ...named]
  return [...new Set([...all, ...forms.flatMap((form) => below(form, path))])]
}

const code = (value: unknown): string =>
  `\`${typeof value === 'string' ? value : JSON.stringify(value)}\``

const row = (...cells: readonly string[]): string =>
  `| ${cells.map((cell) => cell.replaceAll('|', '\\|').replaceAll('\n', ' ')).join(' | ')} |`

/** The text of docs/configuration.md as it should be. */
export function configurationPage(): string {
  const file = new URL('../../config/gateway.schema.json', import.meta.url)
  const schema = JSON.parse(readFileSync(file, 'utf8')) as Part
  const groups = Object.entries(schema.properties ?? {}).map(([name, part]) => {
    const all = rows(part, name, schema.required?.includes(name) ?? false)
    return [`## ${name}`, '', '| key | default | what it is |', '| --- | --- | --- |']
      .concat(all.map((line, at) => shorter(line, all[at - 1])))
      .join('\n')
  })
  return `${[INTRODUCTION, ...groups].join('\n\n')}\n`
}

/** Some keys share one explanation: the first of them has it. */
function shorter(line: string, before = ''): string {
  const text = /[^|]+ \|$/.exec(line)?.[0] ?? ''
  const isSame = before
    .replace('**required** ', '')
    .endsWith(`| ${text.replace('**required** ', '').trim()}`)
  return isSame
    ? line.replace(
        text,
        line.includes('**required**') ? ' **required**, as above |' : ' as above |',
      )
    : line
}
