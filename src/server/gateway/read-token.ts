/** Reads what a signed token says, without any request: plain data, so that one process can ask another. */
import { BAD_CLAIMS, type JwtVerifier } from '../../core/credentials/jwt-verifier.ts'
import { isRefusal, refuse, type Refusal } from '../../core/rules/refusals.ts'
import type { TokenStatement } from '../../core/rules/token-claims.ts'

export type ReadToken =
  | { readonly statement: TokenStatement }
  | { readonly refused: Pick<Refusal, 'code' | 'cause' | 'retryAfterSeconds'> }

/** Key under which operators are limited, apart from client addresses. */
const OPERATORS = 'operators'

/** Whose token it is is decided by the configuration that asks. */
const policy = { callerOf: (statement: TokenStatement) => statement, isOverLimit: () => false }

/** verifier: returns undefined where tokens are not accepted. */
export const readTokenBy =
  (verifier: () => JwtVerifier | undefined) =>
  async (token: string): Promise<ReadToken> => {
    const read = (await verifier()?.verify(token, Date.now(), policy, OPERATORS)) ?? BAD_CLAIMS
    if (!isRefusal(read)) return { statement: read }
    const { code, cause, retryAfterSeconds } = read
    return { refused: { code, cause, retryAfterSeconds } }
  }

/** Trusts what another process has read from the token. */
export const tokenVerifier = (read: (token: string) => Promise<ReadToken>) => ({
  async verify(token: string): Promise<TokenStatement | Refusal> {
    const said = await read(token)
    return 'refused' in said ? refuse(said.refused.code, said.refused) : said.statement
  },
})
