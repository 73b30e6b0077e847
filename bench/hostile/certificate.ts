/** A certificate of a server under attack, which nobody checks. */
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'

/** Paths of PEM files in the folder. */
export function makeCertificate(directory: string): { cert: string; key: string } {
  const [cert, key] = [join(directory, 'tls.pem'), join(directory, 'tls.key')]
  const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
  const made = ['-days', '2', '-subj', '/CN=bench.example', '-keyout', key, '-out', cert]
  execFileSync('openssl', ['req', '-x509', ...curve, ...made], { stdio: 'ignore' })
  return { cert, key }
}
