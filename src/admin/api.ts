/** The admin API: finds the requested operation, runs it if the caller may use it, and logs each change. */
import type { IncomingMessage } from 'node:http'
import type { AuditLine } from '../core/record/log.ts'
import { methodNotAllowed, notFound, type Answer } from './answers.ts'
import { matchPath, type Changed, type Operation } from './operation.ts'
import { operations, type ApiNeeds } from './operations.ts'

export interface AdminApiParts extends ApiNeeds {
  /** Called for each change that a permitted caller requests. */
  audit(line: AuditLine): void
  /** Called for each change that another caller requests. */
  auditRefused(line: AuditLine): void
}

/** caller: name for the audit log, or the answer that refuses the caller; it does not reveal what exists. */
export function answerApi(
  parts: AdminApiParts,
  request: IncomingMessage,
  caller: string | Answer,
): Answer | Promise<Answer> {
  const { url = '', method: written = '' } = request
  const path = url.split('?', 1)[0] ?? ''
  const method = written === 'HEAD' ? 'GET' : written
  const found = operations.flatMap((operation) => {
    const params = matchPath(operation.path, path)
    return params === undefined ? [] : [{ operation, params }]
  })
  const asked = found.find(({ operation }) => operation.method === method)
  if (typeof caller !== 'string') {
    const who = request.socket.remoteAddress ?? 'unknown'
    const isLook = asked !== undefined && asked.operation.action === undefined
    if (method !== 'GET' && !isLook)
      parts.auditRefused({
        who,
        action: asked?.operation.action ?? 'unknown',
        status: caller.status,
      })
    return caller
  }
  if (asked === undefined) return found.length === 0 ? notFound : methodNotAllowed(allowed(found))
  const { operation, params } = asked
  const query = new URLSearchParams(url.slice(path.length + 1))
  return run(parts, operation, { request, who: caller, params, query })
}

async function run(
  parts: AdminApiParts,
  { run: handle, action }: Operation<ApiNeeds>,
  call: Parameters<Operation<ApiNeeds>['run']>[1],
): Promise<Answer> {
  const { who } = call
  try {
    const made = await handle(parts, call)
    if (!isChanged(made)) return made
    if (action !== undefined)
      parts.audit({ who, action, ...call.params, ...made.audit, status: made.answer.status })
    return made.answer
  } catch (error) {
    if (action !== undefined) parts.audit({ who, action, ...call.params, status: 500 })
    throw error
  }
}

const isChanged = (made: Answer | Changed): made is Changed => 'answer' in made

const allowed = (found: readonly { readonly operation: Operation<ApiNeeds> }[]): string =>
  found.map(({ operation: { method } }) => (method === 'GET' ? 'GET, HEAD' : method)).join(', ')
