import { DirectAttempt } from '../../src/core/forwarding/direct.ts'
import { describeForwarder } from './forwarder.ts'

describeForwarder('direct', DirectAttempt)
