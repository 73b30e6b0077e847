/** The admin API: finds the requested operation, runs it if the caller may use it, and logs each change. docs/admin-openapi.yaml describes the operations. */
import type { IncomingMessage } from 'node:http'
import { StoreUnavailable } from '../state/contract.ts'
import { fault, json, methodNotAllowed, Refused, type Answer } from './answers.ts'
import { banOperations } from './bans/operations.ts'
import { clientOperations } from './clients/operations.ts'
import { configOperations } from './config/operations.ts'
import { explainOperation } from './explain/operations.ts'
import { overviewOperations } from './overview/operations.ts'
import { matchPath, type ApiNeeds, type Operation } from './operation.ts'
import { routeOperations } from './routes/operations.ts'
import { shadowOperations } from './shadow/operations.ts'
import { systemOperations } from './system/operations.ts'
import { usageOperations } from './usage/operations.ts'

export const operations: readonly Operation[] = [
  ...configOperations,
  ...overviewOperations,
  explainOperation,
  ...clientOperations,
  ...banOperations,
  ...usageOperations,
  ...routeOperations,
  ...systemOperations,
  ...shadowOperations,
]

/** caller: name for the audit log, or the answer that refuses the caller; it does not reveal what exists. */
export async function answerApi(
  needs: ApiNeeds,
  request: IncomingMessage,
  caller: string | Answer,
): Promise<Answer> {
  const { url = '', method: written = '' } = request
  const path = url.split('?', 1)[0] ?? ''
  const method = written === 'HEAD' ? 'GET' : written
  const found = operations.flatMap((operation) => {
    const params = matchPath(operation.path, path)
    return params === undefined ? [] : [{ operation, params }]
  })
  const asked = found.find(({ operation }) => operation.method === method)
  const query = Object.fromEntries(new URLSearchParams(url.slice(path.length + 1)))
  const partOf = asked?.operation.partOf
  const prove = partOf && (await needs.fleet.proverFor(request))
  // Another gateway proves who it is in its own way, and gets nothing but what this one knows of it.
  if (partOf !== undefined && prove !== undefined)
    return prove(json(200, await partOf(needs, { request, query, params: {}, audit: {} })))
  if (typeof caller !== 'string') {
    const who = request.socket.remoteAddress ?? 'unknown'
    const { action } = asked?.operation ?? { action: 'unknown' }
    if (method !== 'GET' && action !== undefined)
      needs.log.auditRefused({ who, action, status: caller.status })
    return caller
  }
  if (asked === undefined)
    return found.length === 0 ? fault('not_found') : methodNotAllowed(allowed(found))
  const { params, operation } = asked
  const call = { request, params, query, audit: {} }
  let status = 500
  try {
    const made = await operation.handle(needs, call).catch(refusalOf)
    status = made.status
    return made
  } finally {
    const { action } = operation
    if (action !== undefined)
      needs.log.audit({ who: caller, action, ...params, ...call.audit, status })
  }
}

/** Throws what is no refusal. Numbers of which the store does not have all would be too low. */
function refusalOf(error: unknown): Answer {
  if (error instanceof Refused) return error.answer
  if (error instanceof StoreUnavailable) return fault('store_unavailable')
  throw error
}

const allowed = (found: readonly { readonly operation: Operation }[]): string =>
  found.map(({ operation: { method } }) => (method === 'GET' ? 'GET, HEAD' : method)).join(', ')
