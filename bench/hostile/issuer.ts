/** An issuer of tokens, whose key is served as its key set. ES512: the dearest signature to check that many issuers use. */
import { generateKeyPairSync, randomUUID, sign } from 'node:crypto'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { clients } from './clients.ts'

export const ALGORITHM = 'ES512'
export const CLAIMS = {
  iss: 'https://id.example/',
  aud: 'bench',
  sub: clients.victim.id,
  exp: 4_000_000_000,
}

export const encode = (value: object): string =>
  Buffer.from(JSON.stringify(value)).toString('base64url')

export type Issuer = Awaited<ReturnType<typeof startIssuer>>

export async function startIssuer() {
  const { publicKey, privateKey: key } = generateKeyPairSync('ec', { namedCurve: 'P-521' })
  const header = { alg: ALGORITHM, kid: 'first' }
  const jwks = JSON.stringify({ keys: [{ ...publicKey.export({ format: 'jwk' }), ...header }] })
  const server = createServer((_, response) => void response.end(jwks))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    jwksUri: `http://127.0.0.1:${port}/jwks.json`,
    /** A token that nobody has seen before. */
    token: (): string => {
      const text = `${encode(header)}.${encode({ ...CLAIMS, jti: randomUUID() })}`
      const signature = sign('sha512', Buffer.from(text), { key, dsaEncoding: 'ieee-p1363' })
      return `${text}.${signature.toString('base64url')}`
    },
    close: () => {
      server.closeAllConnections()
      server.close()
    },
  }
}
