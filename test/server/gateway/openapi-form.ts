/** The form of an OpenAPI 3.1 document (OAS 3.1.1 section 4.8) as a closed JSON Schema of the objects that ours is made of. */
import { Ajv2020 } from 'ajv/dist/2020.js'

type Json = Record<string, unknown>

const text = { type: 'string', minLength: 1 }
const flag = { type: 'boolean' }
const to = (name: string): Json => ({ $ref: `#/$defs/${name}` })
const mapOf = (values: Json): Json => ({ type: 'object', additionalProperties: values })
const object = (required: readonly string[], properties: Json): Json => ({
  type: 'object',
  required,
  properties,
  additionalProperties: false,
})
/** 4.8.23: either a Reference Object or the thing itself, told apart by `$ref`. */
const orRef = (name: string): Json => ({
  if: { type: 'object', required: ['$ref'] },
  // oxlint-disable-next-line unicorn/no-thenable -- the keyword of JSON Schema
  then: object(['$ref'], { $ref: text, summary: text, description: text }),
  else: to(name),
})

const definitions = {
  info: object(['title', 'version'], {
    title: text,
    version: text,
    description: text,
    contact: object(['name'], { name: text }),
  }),
  tag: object(['name', 'description'], { name: text, description: text }),
  server: object(['url'], {
    url: text,
    description: text,
    variables: mapOf(object(['default'], { default: text, description: text })),
  }),
  operation: object(['operationId', 'summary', 'description', 'tags', 'responses'], {
    operationId: text,
    summary: text,
    description: text,
    deprecated: flag,
    tags: { type: 'array', items: text },
    parameters: { type: 'array', items: orRef('parameter') },
    requestBody: orRef('requestBody'),
    responses: {
      type: 'object',
      minProperties: 1,
      propertyNames: { pattern: '^([1-5](\\d\\d|XX)|default)$' },
      additionalProperties: orRef('response'),
    },
    security: { type: 'array', items: mapOf({ type: 'array', items: text }) },
  }),
  parameter: {
    ...object(['name', 'in', 'schema'], {
      name: text,
      in: { enum: ['query', 'path', 'header', 'cookie'] },
      required: flag,
      description: text,
      deprecated: flag,
      schema: to('schema'),
    }),
    // 4.8.12.1: a path parameter is always required.
    if: { type: 'object', properties: { in: { const: 'path' } } },
    // oxlint-disable-next-line unicorn/no-thenable -- the keyword of JSON Schema
    then: { type: 'object', properties: { required: { const: true } }, required: ['required'] },
  },
  requestBody: object(['content'], { required: flag, description: text, content: to('content') }),
  content: {
    type: 'object',
    propertyNames: { pattern: '^[\\w.+-]+/[\\w.+*-]+$' },
    additionalProperties: object(['schema'], { schema: to('schema'), example: {} }),
  },
  response: object(['description'], {
    description: text,
    headers: {
      type: 'object',
      // 4.8.17.1: a Content-Type header is ignored here, so it must not be written.
      propertyNames: { pattern: '^(?![Cc]ontent-[Tt]ype$)[A-Za-z-]+$' },
      additionalProperties: orRef('header'),
    },
    content: to('content'),
  }),
  header: object(['schema'], { required: flag, description: text, schema: to('schema') }),
  // Judged in full by compiling it.
  schema: { type: 'object' },
}

const names = '^[a-zA-Z0-9._-]+$'
const named = (values: Json): Json => ({ ...mapOf(values), propertyNames: { pattern: names } })

const form = {
  ...object(['openapi', 'info', 'paths'], {
    openapi: { type: 'string', pattern: '^3\\.1\\.\\d+$' },
    info: to('info'),
    tags: { type: 'array', items: to('tag') },
    servers: { type: 'array', items: to('server') },
    security: { type: 'array', items: mapOf({ type: 'array', items: text }) },
    paths: {
      type: 'object',
      propertyNames: { pattern: '^/' },
      additionalProperties: {
        type: 'object',
        minProperties: 1,
        propertyNames: { enum: ['get', 'put', 'post', 'delete', 'options', 'head', 'patch'] },
        additionalProperties: to('operation'),
      },
    },
    components: object([], {
      schemas: named(to('schema')),
      headers: named(orRef('header')),
      responses: named(orRef('response')),
      securitySchemes: named({
        anyOf: [
          object(['type', 'scheme'], { type: { const: 'http' }, scheme: text, description: text }),
          object(['type'], { type: { const: 'mutualTLS' }, description: text }),
        ],
      }),
    }),
  }),
  $defs: definitions,
}

/** Where the document is not of that form; empty when it is. */
export function openApiFaults(root: unknown): string[] {
  const ajv = new Ajv2020({ strict: true, strictRequired: false, allErrors: true })
  const validate = ajv.compile(form)
  return validate(root)
    ? []
    : (validate.errors ?? []).map(({ instancePath, message }) => `${instancePath} ${message}`)
}
