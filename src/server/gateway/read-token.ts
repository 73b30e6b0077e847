/** Reads what a signed token says, without any request: plain data, so that one process can ask another. */
import type { JwtVerifier } from '../../core/credentials/jwt-verifier.ts'
import type { TokenPolicy } from '../../core/credentials/token-callers.ts'
import { BAD_CLAIMS, NO_PLAN, type Verdict } from '../../core/credentials/verdicts.ts'
import { createCaller, type Caller } from '../../core/rules/credentials.ts'
import { isRefusal, refuse, type Refusal } from '../../core/rules/refusals.ts'
import type { TokenStatement } from '../../core/rules/token-claims.ts'

export type ReadToken =
  | { readonly statement: TokenStatement }
  | { readonly refused: Pick<Refusal, 'code' | 'cause' | 'retryAfterSeconds'> }

/** A caller that stands for all: the configuration that asks decides whose token it is. */
const ANYBODY = createCaller(
  {
    clientId: '',
    plan: '',
    keyId: '',
    limits: { perMinute: 0, perDay: 0 },
    concurrent: 0,
    keyDigest: undefined,
    expiresAtMs: 0,
  },
  false,
)

/** Key under which operators are limited, apart from client addresses. */
const OPERATORS = 'operators'

/** verifier: returns undefined where tokens are not accepted. */
export const readTokenBy =
  (verifier: () => JwtVerifier | undefined) =>
  async (token: string): Promise<ReadToken> => {
    let statement: TokenStatement | undefined
    const callerOf = (said: TokenStatement): Caller => {
      statement = said
      return ANYBODY
    }
    const policy = { callerOf, isOverLimit: () => false }
    const verdict = await verifier()?.verify(token, Date.now(), policy, OPERATORS)
    const { code, cause, retryAfterSeconds } = isRefusal(verdict) ? verdict : BAD_CLAIMS
    return isRefusal(verdict) || statement === undefined
      ? { refused: { code, cause, retryAfterSeconds } }
      : { statement }
  }

/** Trusts what another process has read from the token. */
export const tokenVerifier = (read: (token: string) => Promise<ReadToken>) => ({
  async verify(token: string, _nowMs: number, { callerOf }: TokenPolicy): Promise<Verdict> {
    const said = await read(token)
    if ('refused' in said) return refuse(said.refused.code, said.refused)
    return callerOf(said.statement) ?? NO_PLAN
  },
})
