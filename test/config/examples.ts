/** The example files of config/, as text. */
import { readFileSync } from 'node:fs'

const read = (name: string): string =>
  readFileSync(new URL(`../../config/${name}`, import.meta.url), 'utf8')

export const gatewayYaml = read('gateway.yaml')
export const minimalYaml = read('minimal.yaml')
export const productionYaml = read('production.yaml')
/** What it takes from the environment. */
export const productionEnv = {
  REDIS_URL: 'rediss://user:password@redis.internal:6379',
  UPSTREAM_URL: 'http://animals.internal:3000',
  JWT_ISSUER: 'https://id.example/',
  JWKS_URI: 'https://id.example/jwks.json',
  ACME_KEY_SHA256: 'a'.repeat(64),
}
