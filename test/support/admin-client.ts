/** Calls to the admin API, each answer held against docs/admin-openapi.yaml. */
import { join } from 'node:path'
import { expect } from 'vitest'
import { readApiDocument } from '../server/gateway/api-document.ts'

const document = readApiDocument(join(import.meta.dirname, '../../docs/admin-openapi.yaml'))

export interface AdminAnswer {
  readonly status: number
  readonly body: Record<string, unknown>
  /** The status and the code of a fault. */
  readonly coded: readonly [number, unknown]
}

/** call: such as `PUT /api/bans/acme-1`. */
export async function askAdmin(
  adminOrigin: string,
  call: string,
  body?: unknown,
  fields: Record<string, string> = {},
): Promise<AdminAnswer> {
  const [method = '', target = ''] = call.split(' ')
  const response = await fetch(`${adminOrigin}${target}`, {
    method,
    headers: { ...(body !== undefined && { 'Content-Type': 'application/json' }), ...fields },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  })
  const { status, headers } = response
  const bytes = Buffer.from(await response.arrayBuffer())
  const path = target.split('?', 1)[0] ?? ''
  const operation = document.operations.find(
    (one) =>
      one.method === method && new RegExp(`^${one.path.replace(/{\w+}/g, '[^/]+')}$`).test(path),
  )
  const faults = document.faults(operation?.id, {
    status,
    headers: [...headers].flat(),
    all: (name) => [headers.get(name)].filter((value) => value !== null),
    body: bytes,
  })
  expect(faults, `${call}: ${bytes.toString()}`).toEqual([])
  const read = JSON.parse(bytes.toString()) as Record<string, unknown>
  return { status, body: read, coded: [status, read['code']] }
}
