/** Reads docs/openapi.yaml (OpenAPI 3.1) and holds real answers against it: status, every header, body. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import { parse } from 'yaml'
import type { ParsedResponse } from '../../support/raw-client.ts'

type Json = Record<string, unknown>

export interface ApiHeader {
  readonly required?: boolean
  readonly schema: Json
}

export interface ApiResponse {
  readonly headers?: Record<string, ApiHeader | { $ref: string }>
  readonly content?: Record<string, { readonly schema: Json; readonly example?: unknown }>
}

export interface ApiOperation {
  readonly id: string
  readonly method: string
  /** Template below the base path. */
  readonly path: string
  readonly deprecated: boolean
  readonly parameters: readonly Json[]
  readonly responses: Record<string, ApiResponse | { $ref: string }>
}

export type Answer = Pick<ParsedResponse, 'status' | 'headers' | 'all' | 'body'>

export interface ApiDocument {
  readonly root: Json
  readonly operations: readonly ApiOperation[]
  /** What a local reference points at; throws when there is nothing. */
  resolve(ref: string): unknown
  refs(): string[]
  /** Compiles the schema at this local reference; throws where it is no strict JSON Schema 2020-12. */
  compile(ref: string): ValidateFunction
  /** Answers whose JSON has no example, or one that is not as its schema says. */
  exampleFaults(): string[]
  /** Faults of an answer to this operation; undefined: to something that no operation describes. Empty: as documented. */
  faults(operationId: string | undefined, answer: Answer): string[]
}

/** HTTP's own fields, which no document lists. */
const plainFields = new Set([
  'allow',
  'connection',
  'content-length',
  'content-type',
  'cross-origin-resource-policy',
  'date',
  'keep-alive',
  'transfer-encoding',
  'x-content-type-options',
])

export const documentFile = join(import.meta.dirname, '../../../docs/openapi.yaml')

export const readApiDocument = (file = documentFile): ApiDocument =>
  openApiDocument(parse(readFileSync(file, 'utf8')) as Json)

export function openApiDocument(root: Json): ApiDocument {
  const ajv = new Ajv2020({ strict: true, allErrors: true })
  addFormats.default(ajv)
  // The document itself is no schema, only the place where they are.
  ajv.addVocabulary(Object.keys(root))
  ajv.addSchema(root, 'document')
  const compiled = new Map<object, ValidateFunction>()
  const validatorOf = (schema: Json): ValidateFunction => {
    const known = compiled.get(schema)
    if (known !== undefined) return known
    const made = ajv.compile(absolute(schema))
    compiled.set(schema, made)
    return made
  }
  const resolve = (ref: string): unknown => {
    let at: unknown = root
    for (const name of ref.replace(/^#\//, '').split('/')) {
      const key = name.replaceAll('~1', '/').replaceAll('~0', '~')
      if (!isObject(at) || !Object.hasOwn(at, key)) throw new Error(`nothing at ${ref}`)
      at = at[key]
    }
    return at
  }
  const settled = <T>(value: T | { $ref: string }): T =>
    isReference(value) ? (resolve(value.$ref) as T) : value
  const operations = readOperations(root)

  const headerFaults = (response: ApiResponse, answer: Answer): string[] => {
    const documented = new Map(
      Object.entries(response.headers ?? {}).map(([name, header]) => [
        name.toLowerCase(),
        settled(header),
      ]),
    )
    const faults: string[] = []
    for (const [name, { required, schema }] of documented) {
      const values = answer.all(name)
      if (values.length > 1) faults.push(`${name}: ${values.length} times`)
      if (values.length === 0 && required) faults.push(`${name}: absent`)
      for (const value of values) {
        const validate = validatorOf(schema)
        const read = schema['type'] === 'integer' && /^-?\d+$/.test(value) ? Number(value) : value
        if (!validate(read)) faults.push(`${name}: ${value}: ${ajv.errorsText(validate.errors)}`)
      }
    }
    for (const [at, name] of answer.headers.entries()) {
      const field = name.toLowerCase()
      if (at % 2 === 0 && !documented.has(field) && !plainFields.has(field))
        faults.push(`${field}: not documented`)
    }
    return faults
  }
  const bodyFaults = ({ content = {} }: ApiResponse, answer: Answer): string[] => {
    const type = answer.all('content-type').join()
    const media = content[type.split(';', 1)[0] ?? '']
    if (media === undefined) return [`content type ${type}: not documented`]
    const validate = validatorOf(media.schema)
    const text = answer.body.toString('utf8')
    const body: unknown = /^application\/json\b/.test(type) ? JSON.parse(text) : text
    return validate(body) ? [] : [`body: ${ajv.errorsText(validate.errors)}`]
  }

  return {
    root,
    operations,
    resolve,
    refs: () => [...refsIn(root)],
    exampleFaults: () =>
      operations.flatMap(({ id, responses }) =>
        Object.entries(responses).flatMap(([status, response]) => {
          const json = settled(response).content?.['application/json']
          return json === undefined || validatorOf(json.schema)(json.example)
            ? []
            : [`${id} ${status}`]
        }),
      ),
    compile: (ref) => ajv.compile({ $ref: `document${ref}` }),
    faults: (operationId, answer) => {
      const operation = operations.find(({ id }) => id === operationId)
      if (operationId !== undefined && operation === undefined) return [`${operationId}: unknown`]
      const found = operation
        ? (operation.responses[answer.status] ?? operation.responses['default'])
        : { $ref: '#/components/responses/Refused' }
      if (found === undefined) return [`status ${answer.status}: not documented`]
      const response = settled(found)
      return [...headerFaults(response, answer), ...bodyFaults(response, answer)]
    },
  }
}

function readOperations(root: Json): ApiOperation[] {
  return Object.entries(root['paths'] as Record<string, Record<string, Json>>).flatMap(
    ([path, item]) =>
      Object.entries(item).map(([method, operation]) => ({
        id: String(operation['operationId']),
        method: method.toUpperCase(),
        path,
        deprecated: operation['deprecated'] === true,
        parameters: (operation['parameters'] ?? []) as Json[],
        responses: operation['responses'] as ApiOperation['responses'],
      })),
  )
}

/** The same schema with its local references made to point into the registered document. */
function absolute(schema: Json): Json {
  return JSON.parse(JSON.stringify(schema), (key, value: unknown) =>
    key === '$ref' && typeof value === 'string' ? `document${value}` : value,
  ) as Json
}

function* refsIn(value: unknown): Generator<string> {
  if (typeof value !== 'object' || value === null) return
  for (const [key, inner] of Object.entries(value)) {
    if (key === '$ref') yield String(inner)
    else yield* refsIn(inner)
  }
}

function isReference(value: unknown): value is { $ref: string } {
  return isObject(value) && typeof value['$ref'] === 'string'
}

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
