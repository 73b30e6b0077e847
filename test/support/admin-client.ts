/** Calls to the admin API, each answer held against docs/admin-openapi.yaml. */
import { join } from 'node:path'
import { expect } from 'vitest'
import { readApiDocument } from '../server/gateway/api-document.ts'

export const adminDocument = readApiDocument(
  join(import.meta.dirname, '../../docs/admin-openapi.yaml'),
)

export interface AdminAnswer {
  readonly status: number
  readonly body: Record<string, unknown>
  readonly headers: Headers
  /** The status and the code of a fault. */
  readonly coded: readonly [number, unknown]
}

/** call: such as `PUT /api/bans/acme-1`; body: sent as JSON, or as it is where it is bytes. */
export async function askAdmin(
  adminOrigin: string,
  call: string,
  body?: unknown,
  fields: Record<string, string> = {},
): Promise<AdminAnswer> {
  const [method = '', target = ''] = call.split(' ')
  const isJson = body !== undefined && !(body instanceof Uint8Array)
  const response = await fetch(`${adminOrigin}${target}`, {
    method,
    headers: isJson ? { 'Content-Type': 'application/json', ...fields } : fields,
    ...(body !== undefined && {
      body: isJson ? JSON.stringify(body) : (body as Buffer<ArrayBuffer>),
    }),
  })
  const { status, headers } = response
  const bytes = Buffer.from(await response.arrayBuffer())
  const path = target.split('?', 1)[0] ?? ''
  const operation = adminDocument.operations.find(
    (one) =>
      one.method === method && new RegExp(`^${one.path.replace(/{\w+}/g, '[^/]+')}$`).test(path),
  )
  const faults = adminDocument.faults(operation?.id, {
    status,
    headers: [...headers].flat(),
    all: (name) => [headers.get(name)].filter((value) => value !== null),
    body: bytes,
  })
  expect(faults, `${call}: ${bytes.toString()}`).toEqual([])
  const read = JSON.parse(bytes.toString()) as Record<string, unknown>
  return { status, headers, body: read, coded: [status, read['code']] }
}
