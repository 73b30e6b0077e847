import { createDirectEngine } from '../../src/forwarding/direct/forwarder.ts'
import { describeForwarder } from './forwarder.ts'

describeForwarder('direct', createDirectEngine)
