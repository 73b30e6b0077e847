/** config/gateway.schema.json for editors: shapes from src/config/schema.ts, descriptions from the comments of config/gateway.yaml. */
import { readFileSync, writeFileSync } from 'node:fs'
import { format } from 'prettier'
import { isMap, isScalar, isSeq, LineCounter, parseDocument } from 'yaml'
import { z } from 'zod'
import { configSchema } from '../../src/config/schema.ts'
import { configurationPage } from './configuration-page.ts'

const yamlFile = new URL('../../config/gateway.yaml', import.meta.url)
const schemaFile = new URL('../../config/gateway.schema.json', import.meta.url)

type Json = z.core.JSONSchema.BaseSchema

/** Switched-off keys are comments without a space, or with more than one, after the "#". */
export const uncomment = (text: string): string => text.replaceAll(/^( *)#(?=\S|  )/gm, '$1')

/** The comment above the line, or above its neighbours of the same indentation: some keys share one, groups of keys do not. */
function commentAbove(lines: readonly string[], from: number, isGroup: boolean): string {
  const indentOf = (line: string): number => line.search(/\S/)
  const comment: string[] = []
  for (let at = from - 1; at >= 0; at--) {
    const line = lines[at] ?? ''
    const [, words] = /^ *# ?(.*)$/.exec(line) ?? []
    if (words !== undefined) comment.unshift(words)
    else if (isGroup || comment.length > 0 || indentOf(line) !== indentOf(lines[from] ?? '')) break
  }
  return comment.join(' ')
}

/** What each key is for, by its path: `clients[].keys[].id`, the names of plans as `*`. A key without a comment has its group's. */
function readComments(yaml: string): Map<string, string> {
  const text = uncomment(uncomment(yaml))
  const lines = text.split('\n')
  const lineCounter = new LineCounter()
  const found = new Map<string, string>()
  const walk = (node: unknown, path: string, inherited: string): void => {
    if (isSeq(node)) for (const item of node.items) walk(item, `${path}[]`, inherited)
    if (!isMap(node)) return
    for (const { key, value } of node.items) {
      if (!isScalar(key) || !key.range) continue
      const name = path === 'plans' ? '*' : String(key.value)
      const keyPath = path === '' ? name : `${path}.${name}`
      const isInside = node.flow === true || name === '*'
      const at = lineCounter.linePos(key.range[0]).line - 1
      const isGroup = isMap(value) && value.flow !== true
      const own = isInside ? '' : commentAbove(lines, at, isGroup)
      const comment = own === '' ? inherited : own
      if (!found.has(keyPath)) found.set(keyPath, comment)
      walk(value, keyPath, comment)
    }
  }
  walk(parseDocument(text, { lineCounter, uniqueKeys: false }).contents, '', '')
  return found
}

const typesOf = ({ type }: Json): readonly unknown[] => (Array.isArray(type) ? type : [type])

function asWritten(value: unknown, schema: Json): unknown {
  if (typeof value !== 'string') return value
  if (['integer', 'number'].includes(String(typesOf(schema)[0]))) return Number(value)
  return typesOf(schema)[0] === 'boolean' ? value === 'true' : value
}

/** Any value may come from the environment, whole or in part. */
const fromEnvironment = '\\$\\{'

function describe(schema: Json, path: string, comments: ReadonlyMap<string, string>): void {
  const { properties, items, additionalProperties, anyOf, pattern } = schema
  for (const inner of anyOf ?? []) describe(inner, path, new Map())
  for (const [key, value] of Object.entries(properties ?? {})) {
    const inner = value as Json
    const keyPath = path === '' ? key : `${path}.${key}`
    describe(inner, keyPath, comments)
    const comment = comments.get(keyPath)
    if (comment) inner.description = comment
    const { default: standard } = inner
    if (standard === undefined) continue
    delete inner.default
    if (typeof standard === 'object' && !Array.isArray(standard)) continue
    Object.assign(inner, { default: asWritten(standard, inner) })
    inner.description =
      `${inner.description ?? ''} Default: ${JSON.stringify(inner.default)}.`.trim()
  }
  if (schema.required?.length === 0) delete schema.required
  if (typeof items === 'object' && !Array.isArray(items)) describe(items, `${path}[]`, comments)
  if (typeof additionalProperties === 'object')
    describe(additionalProperties, `${path}.*`, comments)
  if (pattern !== undefined) schema.pattern = `(?:${pattern})|${fromEnvironment}`
  if (schema.enum !== undefined) {
    schema.anyOf = [{ enum: schema.enum }, { type: 'string', pattern: fromEnvironment }]
    delete schema.enum
    delete schema.type
  }
}

/** The text of config/gateway.schema.json as it should be. */
export async function gatewaySchema(): Promise<string> {
  const schema = z.toJSONSchema(configSchema, { io: 'input', target: 'draft-7', reused: 'inline' })
  describe(schema, '', readComments(readFileSync(yamlFile, 'utf8')))
  schema.title = 'Configuration of Tollgate'
  return format(JSON.stringify(schema), { parser: 'json', printWidth: 100 })
}

if (import.meta.main) {
  writeFileSync(schemaFile, await gatewaySchema())
  const page = new URL('../../docs/configuration.md', import.meta.url)
  writeFileSync(page, configurationPage())
}
