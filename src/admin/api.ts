/** The admin API: what operators and their tools may ask and do. docs/admin-openapi.yaml describes it. */
import { createHash, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { isLoopback } from '../config/addresses.ts'
import type { Config, ListenAddress } from '../config/config.ts'
import type { AuditLine } from '../observability/config-lines.ts'
import type { ReloadOutcome, ReloadWish } from '../rules/reload-outcome.ts'
import { fault, json, methodNotAllowed, notFound, type Answer } from './answers.ts'
import { effectiveConfig } from './effective-config.ts'
import { keysPage } from './keys-page.ts'
import { isAnswer, readJson } from './read-json.ts'

export interface AdminApiParts {
  readonly listen: ListenAddress
  readonly reloads: {
    /** In force. */
    readonly config: Config
    reload(wish: ReloadWish): Promise<ReloadOutcome>
  }
  /** Told of each change that somebody who may has asked for. */
  audit(line: AuditLine): void
  /** Told of each that somebody who may not has asked for. */
  auditRefused(line: AuditLine): void
}

type Operation = (
  parts: AdminApiParts,
  call: { readonly request: IncomingMessage; readonly who: string },
) => Answer | Promise<Answer>

const operations = new Map<string, Readonly<Record<string, Operation>>>([
  ['/api/config', { GET: ({ reloads }) => json(200, effectiveConfig(reloads.config)) }],
  ['/api/keys', { GET: ({ reloads }, { request }) => keysPage(reloads.config, queryOf(request)) }],
  ['/api/reload', { POST: reload }],
])

/** Who asks is judged first: whoever may not learns nothing of what there is. */
export function answerApi(
  parts: AdminApiParts,
  request: IncomingMessage,
  path: string,
): Answer | Promise<Answer> {
  const caller = callerOf(parts, request)
  if (typeof caller !== 'string') {
    const who = request.socket.remoteAddress ?? 'unknown'
    if (request.method === 'POST')
      parts.auditRefused({ who, action: operations.has(path) ? path : 'unknown' })
    return caller
  }
  const methods = operations.get(path)
  if (methods === undefined) return notFound
  const method = request.method === 'HEAD' ? 'GET' : (request.method ?? '')
  const operation = Object.hasOwn(methods, method) ? methods[method] : undefined
  if (operation !== undefined) return operation(parts, { request, who: caller })
  return methodNotAllowed('GET' in methods ? 'GET, HEAD' : Object.keys(methods).join(', '))
}

const queryOf = ({ url = '' }: IncomingMessage): URLSearchParams =>
  new URLSearchParams(url.slice(url.indexOf('?') + 1 || url.length))

const tokenNeeded = fault({
  status: 403,
  code: 'token_needed',
  message:
    'This listener can be reached by others than this machine: set admin.tokenSha256, the SHA-256 of a token to be sent as "Authorization: Bearer <TOKEN>".',
})
const tokenInvalid = fault(
  {
    status: 401,
    code: 'invalid_token',
    message: 'Send the token of admin.tokenSha256 as "Authorization: Bearer <TOKEN>".',
  },
  { fields: { 'WWW-Authenticate': 'Bearer' } },
)

/** For the audit log; an Answer: may not ask. */
function callerOf(
  { listen, reloads }: AdminApiParts,
  { headers, socket }: IncomingMessage,
): string | Answer {
  const { tokenSha256 } = reloads.config.admin
  if (tokenSha256 === undefined)
    return isLoopback(listen.host) ? (socket.remoteAddress ?? 'unknown') : tokenNeeded
  const [, token] = /^Bearer +([!-~]+)$/i.exec(headers.authorization ?? '') ?? []
  if (token === undefined) return tokenInvalid
  const digest = createHash('sha256').update(token).digest()
  const isKnown = timingSafeEqual(digest, Buffer.from(tokenSha256, 'hex'))
  return isKnown ? `token ${tokenSha256.slice(0, 8)}` : tokenInvalid
}

/** undefined: the body says none. */
function wishOf(body: unknown): ReloadWish | undefined {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) return undefined
  const { dryRun = false, revision, ...unknown } = body as Record<string, unknown>
  if (Object.keys(unknown).length > 0 || typeof dryRun !== 'boolean') return undefined
  if (revision === undefined) return { dryRun }
  const isRevision = typeof revision === 'string' && /^[0-9a-f]{1,64}$/.test(revision)
  return isRevision ? { dryRun, revision } : undefined
}

const malformedWish = fault({
  status: 400,
  code: 'invalid_request',
  message: 'Send no body, or one of {"dryRun":true} and {"revision":"REVISION"}.',
})

async function reload(
  { reloads, audit }: AdminApiParts,
  { request, who }: { readonly request: IncomingMessage; readonly who: string },
): Promise<Answer> {
  const before = reloads.config.revision
  const settle = (answer: Answer, details: object): Answer => {
    const after = reloads.config.revision
    audit({ who, action: 'reload', ...details, status: answer.status, before, after })
    return answer
  }
  const body = await readJson(request)
  if (isAnswer(body)) return settle(body, {})
  const wish = body === undefined ? {} : wishOf(body)
  if (wish === undefined) return settle(malformedWish, {})
  const outcome = await reloads.reload(wish)
  return settle(answerOf(outcome), { ...wish, outcome: outcome.outcome })
}

function answerOf(outcome: ReloadOutcome): Answer {
  if (outcome.outcome === 'refused')
    return fault(
      {
        status: 422,
        code: 'config_refused',
        message: 'The configuration cannot be taken; the one in force stays.',
      },
      { ...outcome },
    )
  if (outcome.outcome === 'filesChanged')
    return fault(
      {
        status: 409,
        code: 'files_changed',
        message: 'The files hold another revision by now; look at what it changes first.',
      },
      { ...outcome },
    )
  return json(200, outcome)
}
