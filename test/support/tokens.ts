/** Tokens of an identity provider, and the key set that proves them. */
import { createServer } from 'node:http'
import { exportJWK, generateKeyPair, SignJWT, type CryptoKey } from 'jose'
import { listening } from './listening.ts'

const [issuer, audience] = ['https://id.example/', 'animal-store']
export const tokenHeader = { alg: 'ES256', kid: 'first' }

/** Good for an hour, of a client that no configuration has, unless they say otherwise. */
export const claimsOf = (claims: Record<string, unknown> = {}) => {
  const exp = Math.floor(Date.now() / 1000) + 3_600
  return { iss: issuer, aud: audience, sub: 'token-client', plan: 'pro', exp, ...claims }
}

interface Signer {
  readonly key: CryptoKey
  readonly jwks: string
}

export async function createSigner(): Promise<Signer> {
  const { publicKey, privateKey } = await generateKeyPair(tokenHeader.alg, { extractable: true })
  const jwk = { ...(await exportJWK(publicKey)), ...tokenHeader, use: 'sig' }
  return { key: privateKey, jwks: JSON.stringify({ keys: [jwk] }) }
}

export const sign = ({ key }: Signer, claims?: Record<string, unknown>): Promise<string> =>
  new SignJWT(claimsOf(claims)).setProtectedHeader(tokenHeader).sign(key)

export async function serveKeys(jwks: string, port = 0) {
  let requests = 0
  const server = createServer((_, response) => {
    requests++
    response.setHeader('Content-Type', 'application/jwk-set+json').end(jwks)
  })
  return {
    uri: `http://127.0.0.1:${await listening(server, port)}/jwks.json`,
    requests: () => requests,
    close: () => server.close(),
  }
}

/** The block of a configuration that believes them; keys: where they are, and further settings. */
export const believing = (keys: string): string =>
  `jwt: { issuer: "${issuer}", audience: ${audience}, algorithms: [${tokenHeader.alg}], ${keys} }`
