/** An issuer of tokens, whose keys are served as its key set. ES512: the dearest signature to check that many issuers use. */
import { generateKeyPairSync, randomUUID, sign, type KeyObject } from 'node:crypto'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { clients } from './setup.ts'

export const ALGORITHM = 'ES512'
export const claims = {
  iss: 'https://id.example/',
  aud: 'bench',
  sub: clients.victim.id,
  exp: 4_000_000_000,
}

const encode = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url')

export interface Issuer {
  readonly jwksUri: string
  /** PEM of the first key. */
  readonly publicKey: string
  /** A token that nobody has seen before, by the first key or the one it is rotated to. */
  token(kid: 'first' | 'second'): string
  /** From now on the key set has the second key alone. */
  rotate(): void
  close(): void
}

export async function startIssuer(): Promise<Issuer> {
  const [first, second] = [newKeys(), newKeys()]
  const jwks = (kid: string, key: KeyObject): string =>
    JSON.stringify({ keys: [{ ...key.export({ format: 'jwk' }), kid, alg: ALGORITHM }] })
  let body = jwks('first', first.publicKey)
  const server = createServer((_, response) => void response.end(body))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    jwksUri: `http://127.0.0.1:${port}/jwks.json`,
    publicKey: first.publicKey.export({ type: 'spki', format: 'pem' }),
    token(kid) {
      const key = (kid === 'first' ? first : second).privateKey
      const text = `${encode({ alg: ALGORITHM, kid })}.${encode({ ...claims, jti: randomUUID() })}`
      const signature = sign('sha512', Buffer.from(text), { key, dsaEncoding: 'ieee-p1363' })
      return `${text}.${signature.toString('base64url')}`
    },
    rotate: () => void (body = jwks('second', second.publicKey)),
    close: () => {
      server.closeAllConnections()
      server.close()
    },
  }
}

const newKeys = () => generateKeyPairSync('ec', { namedCurve: 'P-521' })
